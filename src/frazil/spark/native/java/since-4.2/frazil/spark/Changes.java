package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes of a table between two snapshots, row by row; see io/change_rows.py. */
final class Changes implements Changelog {
  private final String name;
  private final Description described;
  private final boolean net;

  Changes(String name, Description described, boolean net) {
    this.name = name;
    this.described = described;
    this.net = net;
  }

  public String name() {
    return name + "$changes";
  }

  public Column[] columns() {
    return CatalogV2Util.structTypeToV2Columns(described.schema(), false);
  }

  /** A row that is written again as it was is no change. */
  public boolean containsCarryoverRows() {
    return false;
  }

  /** Each commit tells what it changed, unless only the difference of both ends was asked for. */
  public boolean containsIntermediateChanges() {
    return !net;
  }

  /** Both images of an update are told. */
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  /** The dimensions. */
  public NamedReference[] rowId() {
    List names = (List) described.properties().get("rowId");
    NamedReference[] found = new NamedReference[names.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = Expressions.column("`" + ((String) names.get(i)).replace("`", "``") + "`");
    }
    return found;
  }

  public NamedReference rowVersion() {
    return Expressions.column("_commit_version");
  }

  /** Takes the options of reading that say nothing about where data is, or between which versions. */
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    Map options = new HashMap(described.options());
    for (Object each : more.asCaseSensitiveMap().keySet()) {
      String key = ((String) each).toLowerCase(Locale.ROOT);
      if (key.equals("partitionbytes") || key.equals("batchrows") || key.startsWith("maxcommits")) {
        options.put(each, more.get(each));
      }
    }
    return new ChangesScanBuilder(name(), described, options, net);
  }

  /** Names of the dimensions among the columns. */
  static List dimensions(Description described) {
    return new ArrayList((List) described.properties().get("rowId"));
  }
}
