package frazil.spark;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that was found by its name, in a catalog that says where it is and how it is reached. */
final class CatalogTable extends ArrayTable 
    implements SupportsRowLevelOperations, SupportsDeleteV2 {
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

  /** Metadata tables, and tables of a tag or a snapshot, are not written to. */
  public Set capabilities() {
    Set found = EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
    if (described().hasCells()) {
      found.add(TableCapability.BATCH_WRITE);
      found.add(TableCapability.STREAMING_WRITE);
      found.add(TableCapability.TRUNCATE);
    }
    return found;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    return super.newScanBuilder(new CaseInsensitiveStringMap(ofStatement(more)));
  }

  /** A statement may add options, but none that says where data is or how it is reached. */
  private static Map ofStatement(CaseInsensitiveStringMap more) {
    Map left = new HashMap(more.asCaseSensitiveMap());
    for (Object each : more.asCaseSensitiveMap().keySet()) {
      String key = ((String) each).toLowerCase(Locale.ROOT);
      if (isOfCatalog(key) || key.equals("path") || key.startsWith("frazil")) {
        throw new IllegalArgumentException(
            "option '" + each + "' is a matter of the catalog, not of a statement");
      } else if (isTimeTravel(key)) {
        left.remove(each);
      }
    }
    return left;
  }

  private static boolean isOfCatalog(String key) {
    return key.equals("authorize") || key.startsWith("storage.") || key.startsWith("secret");
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Map told = new HashMap();
    told.put("inPlace", Boolean.TRUE);
    return new RowWriteBuilder(target(info.options()), told, info);
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    if (!described().hasCells()) {
      throw new UnsupportedOperationException(name + " is a metadata table, which is only read");
    }
    return new RowLevel(this, info);
  }

  /** The write of UPDATE, DELETE or MERGE. */
  DeltaWrite delta(LogicalWriteInfo info, Map told) {
    return new RowWrite.Delta(target(info.options()), told, info);
  }

  /** Without looking at rows: by coordinates alone. */
  public boolean canDeleteWhere(Predicate[] predicates) {
    Condition found = condition(predicates);
    return described().hasCells() && found.exact;
  }

  public void deleteWhere(Predicate[] predicates) {
    Map question = new HashMap();
    question.put("clear", ArrayScan.written(condition(predicates).holds));
    question.put("dims", dims());
    question.put("base", described().snapshot());
    List variables = new ArrayList();
    for (Object each : described().variables()) {
      variables.add(((Description.Variable) each).name);
    }
    question.put("variables", variables);
    question.put("carry", Boolean.TRUE);
    Description.ask(target(CaseInsensitiveStringMap.empty()), question);
  }

  private Condition condition(Predicate[] predicates) {
    Condition found = Condition.of(new AlwaysTrue(), described());
    for (Predicate each : predicates) {
      found = found.and(Condition.of(each, described()));
    }
    return found;
  }

  /** Options of a write: where the table is, and what the statement says. */
  private Map target(CaseInsensitiveStringMap given) {
    Map target = ofStatement(given);
    Map own = described().options();
    for (Object each : own.keySet()) {
      String key = ((String) each).toLowerCase(Locale.ROOT);
      if (key.equals("tag") || key.equals("snapshot") || key.equals("asof")) {
        throw new IllegalArgumentException(
            name + " is the table of a " + (key.equals("tag") ? "tag" : "snapshot")
                + ", which never changes: write to a branch");
      } else if (isOfCatalog(key) || key.equals("path") || key.equals("group")
          || key.equals("branch")) {
        target.put(each, own.get(each));
      }
    }
    return target;
  }

  private String[] dims() {
    Dimension[] dimensions = described().dimensions();
    String[] names = new String[dimensions.length];
    for (int d = 0; d < names.length; d++) {
      names[d] = dimensions[d].name();
    }
    return names;
  }

  /** Spark's own options, by which the table was already found. */
  private static boolean isTimeTravel(String key) {
    SQLConf settings = SQLConf.get();
    String version = settings.getConfString("spark.sql.timeTravelVersionKey", "versionAsOf");
    String time = settings.getConfString("spark.sql.timeTravelTimestampKey", "timestampAsOf");
    return key.equalsIgnoreCase(version) || key.equalsIgnoreCase(time);
  }
}
