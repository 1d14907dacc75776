package frazil.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The Python data source of the same name, which answers questions and reads.
 *
 * <p>Every call makes a new PythonDataSourceV2: the one field in which it caches its plan, whatever
 * the options, then never serves two scans.
 */
final class Python {
  static final String NAME = "icechunk";
  /** The option that makes the Python source answer a question instead of giving a schema. */
  static final String QUESTION = "frazilQuestion";
  /** The option that carries what was pushed down. */
  static final String SCAN = "frazilScan";

  /** The option that carries the version of these classes, which that of the Python must equal. */
  static final String JAVA = "frazilJava";
  /** The setting that turns the native table off, for one session or all. */
  static final String NATIVE = "spark.frazil.native";

  private Python() {}

  static boolean isNative() {
    return !"false".equalsIgnoreCase(SQLConf.get().getConfString(NATIVE, "true").trim());
  }

  /** The table that there is without these classes. */
  static Table plainTable(StructType schema) {
    return new PythonTable(source(), NAME, schema);
  }

  static StructType plainSchema(CaseInsensitiveStringMap options) {
    return source().inferSchema(options);
  }

  private static PythonDataSourceV2 source() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(NAME);
    return source;
  }

  /** Asks a Python process of the driver; the answer is a schema, whose metadata carry the rest. */
  static StructType ask(Map options) {
    Map more = new HashMap(options);
    String version = Python.class.getPackage().getImplementationVersion();
    if (version != null && !new CaseInsensitiveStringMap(options).containsKey(JAVA)) {
      more.put(JAVA, version);
    }
    return source().inferSchema(new CaseInsensitiveStringMap(more));
  }

  static Batch batch(Map options, StructType schema) {
    return scan(options, schema).toBatch();
  }

  static MicroBatchStream stream(Map options, StructType schema, String checkpoint) {
    return scan(options, schema).toMicroBatchStream(checkpoint);
  }

  /** Spark's own write; the Python source hears whether the save mode is overwrite. */
  static Write write(LogicalWriteInfo info, boolean truncates) {
    SupportsWrite table = new PythonTable(source(), NAME, info.schema());
    WriteBuilder builder = table.newWriteBuilder(info);
    return (truncates ? ((SupportsTruncate) builder).truncate() : builder).build();
  }

  private static PythonScan scan(Map options, StructType schema) {
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
    return new PythonScan(source(), NAME, schema, given, new Filter[0]);
  }
}
