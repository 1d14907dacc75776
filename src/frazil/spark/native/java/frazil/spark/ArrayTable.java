package frazil.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of a repository: a group of arrays, its chunks, or a metadata table. */
public class ArrayTable implements Table, SupportsRead, SupportsWrite {
  private final StructType schema;
  private final Map options;
  private Description described;

  ArrayTable(StructType schema, Map options, Description described) {
    this.schema = schema;
    this.options = options;
    this.described = described;
  }

  public String name() {
    return described == null ? Python.NAME : described.title();
  }

  public StructType schema() {
    return schema;
  }

  public Map properties() {
    return described == null ? new HashMap() : described.properties();
  }

  /** Whether a catalog has it, which then has its functions, too. */
  boolean isNamed() {
    return false;
  }

  public Set capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.BATCH_WRITE,
        TableCapability.STREAMING_WRITE,
        TableCapability.TRUNCATE);
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    CaseInsensitiveStringMap own = new CaseInsensitiveStringMap(options);
    Map all = new HashMap(options);
    for (Object key : more.keySet()) {
      if (!own.containsKey(key)) {
        all.put(key, more.get(key));
      }
    }
    boolean same = described != null && described.answers(all);
    Description used = same ? described : Description.of(all);
    if (all.size() == options.size()) {
      described = used;
    }
    requireFitting(used.schema());
    return new ArrayScanBuilder(used, schema, isNamed());
  }

  /** A schema that the user has given has some of the columns, with their types. */
  private void requireFitting(StructType own) {
    for (StructField given : schema.fields()) {
      if (!own.getFieldIndex(given.name()).isDefined()) {
        throw new IllegalArgumentException(
            "the schema given has '"
                + given.name()
                + "'; the columns are "
                + String.join(", ", own.fieldNames()));
      }
      String type = own.apply(given.name()).dataType().catalogString();
      if (!type.equals(given.dataType().catalogString())) {
        throw new IllegalArgumentException(
            "column '"
                + given.name()
                + "' is "
                + type
                + ", the schema given says "
                + given.dataType().catalogString());
      }
    }
  }

  Description described() {
    return described;
  }

  /** The options say everything: what is written where, and how. */
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Map given = new HashMap(options);
    given.putAll(info.options().asCaseSensitiveMap());
    return new RowWriteBuilder(given, info);
  }
}
