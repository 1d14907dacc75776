package frazil.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Takes what Spark pushes down, and narrows the cells and columns to be read. */
final class ArrayScanBuilder
    implements SupportsPushDownCatalystFilters,
        SupportsPushDownRequiredColumns,
        SupportsPushDownAggregates,
        SupportsPushDownLimit {
  private final Description table;
  private final List pushed = new ArrayList();
  private StructType columns;
  private Cells cells;
  private Aggregates aggregates;
  private KnownRow known;
  private boolean unsafeAverage;

  ArrayScanBuilder(Description table, StructType columns) {
    this.table = table;
    this.columns = columns;
    this.cells = table.everything();
  }

  /** Returns the filters that Spark has to apply itself. */
  public Seq pushFilters(Seq filters) {
    List left = new ArrayList();
    for (Object each : CollectionConverters.asJava(filters)) {
      Expression filter = (Expression) each;
      Condition condition = table.hasCells() ? Condition.of(filter, table) : null;
      Cells kept = condition == null ? cells : cells.and(condition.holds);
      boolean usable = condition != null && !kept.isTooMany();
      if (usable && kept.size() < cells.size()) {
        pushed.add(filter.sql());
      }
      if (usable) {
        cells = kept;
      }
      if (!usable || !condition.exact) {
        left.add(filter);
      }
    }
    return CollectionConverters.asScala(left).toSeq();
  }

  /** None: the scan tells in its own description what was pushed. */
  public Predicate[] pushedFilters() {
    return new Predicate[0];
  }

  public void pruneColumns(StructType required) {
    columns = required;
  }

  /** Blocks give partial results. Averages are seen only here, before Spark splits them. */
  public boolean supportCompletePushDown(Aggregation asked) {
    unsafeAverage |= !Aggregates.averagesAreSafe(asked, table, cells);
    return KnownRow.of(asked, table, cells) != null;
  }

  public boolean pushAggregation(Aggregation asked) {
    known = KnownRow.of(asked, table, cells);
    if (known != null) {
      return true;
    }
    aggregates = unsafeAverage ? null : Aggregates.of(asked, table, cells);
    return aggregates != null;
  }

  /** Spark applies the limit again: any cells will do, if there are enough. */
  public boolean pushLimit(int limit) {
    if (!table.hasCells() || aggregates != null || known != null) {
      return false;
    }
    cells = cells.first(limit);
    pushed.add("LIMIT " + limit);
    return true;
  }

  public Scan build() {
    if (known != null) {
      return known;
    }
    return new ArrayScan(table, columns, cells, pushed, aggregates);
  }
}
