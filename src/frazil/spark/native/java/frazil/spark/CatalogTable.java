package frazil.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.internal.SQLConf;
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
    Map left = new HashMap(more.asCaseSensitiveMap());
    for (Object each : more.asCaseSensitiveMap().keySet()) {
      String key = ((String) each).toLowerCase(Locale.ROOT);
      if (key.equals("path") || key.equals("authorize") || key.startsWith("storage.")
          || key.startsWith("secret") || key.startsWith("frazil")) {
        throw new IllegalArgumentException(
            "option '" + each + "' is a matter of the catalog, not of a statement");
      } else if (isTimeTravel(key)) {
        left.remove(each);
      }
    }
    return super.newScanBuilder(new CaseInsensitiveStringMap(left));
  }

  /** Spark's own options, by which the table was already found. */
  private static boolean isTimeTravel(String key) {
    SQLConf settings = SQLConf.get();
    String version = settings.getConfString("spark.sql.timeTravelVersionKey", "versionAsOf");
    String time = settings.getConfString("spark.sql.timeTravelTimestampKey", "timestampAsOf");
    return key.equalsIgnoreCase(version) || key.equalsIgnoreCase(time);
  }
}
