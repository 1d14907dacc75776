package frazil.spark;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A table that is made, or replaced, by the commit of its rows. */
final class NewTable implements StagedTable, SupportsWrite {
  private final Catalog catalog;
  private final Identifier name;
  private final TableInfo info;
  private final Map options;
  private final boolean replaces;
  private boolean hasRows;

  NewTable(Catalog catalog, Identifier name, TableInfo info, Map options, boolean replaces) {
    this.catalog = catalog;
    this.name = name;
    this.info = info;
    this.options = options;
    this.replaces = replaces;
  }

  public String name() {
    return catalog.name() + "." + name;
  }

  public StructType schema() {
    return info.schema();
  }

  public Set capabilities() {
    return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    hasRows = true;
    return new RowWriteBuilder(options, write);
  }

  /** The commit of the rows, even of none, has made the table. */
  public void commitStagedChanges() {
    if (!hasRows) {
      catalog.create(name, info, replaces);
    }
  }

  public void abortStagedChanges() {}
}
