package frazil.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A write of rows: adds to what is there, or replaces it. */
final class RowWriteBuilder implements WriteBuilder, SupportsTruncate {
  private final Map options;
  private final Map told;
  private final String[] dims; // null if Python is to be asked
  private final LogicalWriteInfo info;
  private boolean truncates;

  /** A write that its options alone describe. */
  RowWriteBuilder(Map options, LogicalWriteInfo info) {
    this(options, new HashMap(), null, info);
  }

  RowWriteBuilder(Map options, Map told, String[] dims, LogicalWriteInfo info) {
    this.options = options;
    this.told = told;
    this.dims = dims;
    this.info = info;
  }

  public WriteBuilder truncate() {
    truncates = true;
    return this;
  }

  public Write build() {
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
    if ("chunks".equalsIgnoreCase(given.get("input")) || given.containsKey(WriteJob.TASKS)) {
      return Python.write(info, truncates); // no rows of cells
    }
    return new RowWrite(options, told, dims == null ? askDims() : dims, info, truncates);
  }

  private String[] askDims() {
    Map question = new HashMap();
    question.put("sorted", Arrays.asList(info.schema().fieldNames()));
    question.put("carry", Boolean.TRUE);
    List found = (List) Description.ask(options, question).get("dims");
    return (String[]) found.toArray(new String[0]);
  }
}
