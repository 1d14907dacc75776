package frazil.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * UPDATE, DELETE or MERGE of a table: Spark reads the rows that it needs, of the table's snapshot,
 * and tells what becomes of each. A row is known by its coordinates.
 */
final class RowLevel implements SupportsDelta, RowLevelOperationBuilder {
  private final CatalogTable table;
  private final RowLevelOperationInfo info;

  RowLevel(CatalogTable table, RowLevelOperationInfo info) {
    this.table = table;
    this.info = info;
  }

  public RowLevelOperation build() {
    return this;
  }

  public RowLevelOperation.Command command() {
    return info.command();
  }

  public NamedReference[] rowId() {
    Dimension[] dimensions = table.described().dimensions();
    NamedReference[] found = new NamedReference[dimensions.length];
    for (int d = 0; d < found.length; d++) {
      found[d] = Expressions.column("`" + dimensions[d].name().replace("`", "``") + "`");
    }
    return found;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return table.newScanBuilder(options);
  }

  /** The commit fails, or is rebased, if the branch has moved on since the rows were read. */
  public DeltaWriteBuilder newWriteBuilder(final LogicalWriteInfo write) {
    final Map told = new HashMap();
    told.put("command", command().name());
    told.put("base", table.described().snapshot());
    told.put("table", table.schema().json());
    return new DeltaWriteBuilder() {
      public DeltaWrite build() {
        return table.delta(write, told);
      }
    };
  }
}
