package frazil.spark;

import java.util.HashMap;
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
  private final LogicalWriteInfo info;
  private boolean truncates;

  /** A write that its options alone describe. */
  RowWriteBuilder(Map options, LogicalWriteInfo info) {
    this(options, new HashMap(), info);
  }

  RowWriteBuilder(Map options, Map told, LogicalWriteInfo info) {
    this.options = options;
    this.told = told;
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
    return new RowWrite(options, told, info, truncates);
  }
}
