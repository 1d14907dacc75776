package frazil.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What <code>spark.read.format("icechunk")</code> finds: a table of the options it was given. */
public class Source implements TableProvider, DataSourceRegister {
  private Description described;

  public String shortName() {
    return Python.NAME;
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    if (!Python.isNative()) {
      return Python.plainSchema(options);
    }
    described = Description.of(options.asCaseSensitiveMap());
    return described.schema();
  }

  /** Spark also calls this alone: for a write, or with a schema of the user. */
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    if (!Python.isNative()) {
      return Python.plainTable(schema);
    }
    boolean same = described != null && described.answers(properties);
    return new ArrayTable(schema, properties, same ? described : null);
  }

  public boolean supportsExternalMetadata() {
    return true;
  }
}
