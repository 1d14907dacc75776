package frazil.spark;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that was found by its name, in a catalog that says where it is and how it is reached. */
final class CatalogTable extends ArrayTable {
  private final String name;

  CatalogTable(String name, Description described) {
    super(described.schema(), described.options(), described);
    this.name = name;
  }

  public String name() {
    return name;
  }

  boolean isNamed() {
    return true;
  }

  /** The catalog only reads. */
  public Set capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
  }

  /** A statement may add options, but none that says where data is or how it is reached. */
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    for (Object each : more.keySet()) {
      String key = ((String) each).toLowerCase(java.util.Locale.ROOT);
      if (key.equals("path") || key.equals("authorize") || key.startsWith("storage.")
          || key.startsWith("secret") || key.startsWith("frazil")) {
        throw new IllegalArgumentException(
            "option '" + each + "' is a matter of the catalog, not of a statement");
      }
    }
    return super.newScanBuilder(more);
  }
}
