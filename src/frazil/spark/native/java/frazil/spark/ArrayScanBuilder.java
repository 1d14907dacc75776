package frazil.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownOffset;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTableSample;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Takes what Spark pushes down, and narrows the cells and columns to be read. */
final class ArrayScanBuilder
    implements SupportsPushDownCatalystFilters,
        SupportsPushDownRequiredColumns,
        SupportsPushDownTableSample,
        SupportsPushDownAggregates,
        SupportsPushDownLimit,
        SupportsPushDownOffset,
        SupportsPushDownTopN {
  private final Description table;
  private final boolean named;
  private final List pushed = new ArrayList();
  private final Where where = new Where();
  private StructType columns;
  private Cells cells;
  private Sample sample;
  private boolean limited;
  private Aggregates aggregates;
  private KnownRow known;
  private boolean unsafeAverage;

  ArrayScanBuilder(Description table, StructType columns, boolean named) {
    this.table = table;
    this.named = named;
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
      if (kept.size() < cells.size()) {
        pushed.add(filter.sql());
      }
      boolean exact = condition != null && condition.exact && !kept.isTooMany();
      if (!exact && !takes(filter)) {
        left.add(filter);
      }
      cells = kept.bounds();
    }
    return CollectionConverters.asScala(left).toSeq();
  }

  /** Whether the Python side evaluates a condition on values. */
  private boolean takes(Expression filter) {
    boolean rows = table.hasCells() && sample == null && PythonColumns.areThere();
    Set variables = new HashSet();
    List told = rows ? ValueCondition.of(filter, table, variables) : null;
    if (told == null) {
      return false;
    }
    where.conditions.add(told);
    where.variables.addAll(variables);
    pushed.add(filter.sql());
    return true;
  }

  /** None: the scan tells in its own description what was pushed. */
  public Predicate[] pushedFilters() {
    return new Predicate[0];
  }

  /** Whole columns: of a structure, Spark may ask for some fields, which are read together. */
  public void pruneColumns(StructType required) {
    StructType whole = new StructType();
    for (StructField field : required.fields()) {
      boolean known = columns.getFieldIndex(field.name()).isDefined();
      whole = whole.add(known ? columns.apply(field.name()) : field);
    }
    columns = whole;
  }

  /** Keeps each row by a number made from the seed and its place: the same rows in every scan. */
  public boolean pushTableSample(
      double lower, double upper, boolean withReplacement, long seed) {
    if (!table.hasCells() || withReplacement || sample != null || !where.isEmpty()) {
      return false;
    }
    sample = new Sample(lower, upper, seed);
    pushed.add("SAMPLE " + (upper - lower));
    return true;
  }

  /** Blocks give partial results. Averages are seen only here, before Spark splits them. */
  public boolean supportCompletePushDown(Aggregation asked) {
    unsafeAverage |= !Aggregates.averagesAreSafe(asked, table, cells);
    return ofAllCells() && KnownRow.of(asked, table, cells) != null;
  }

  public boolean pushAggregation(Aggregation asked) {
    if (sample != null || limited) {
      return false;
    }
    known = ofAllCells() ? KnownRow.of(asked, table, cells) : null;
    if (known != null) {
      return true;
    }
    aggregates = unsafeAverage ? null : Aggregates.of(asked, table, cells, !where.isEmpty());
    return aggregates != null;
  }

  /** A limit and the first rows of an order are applied by Spark again: more rows do no harm. */
  public boolean isPartiallyPushed() {
    return true;
  }

  /** Whether nothing but the choice of cells decides about rows. */
  private boolean ofAllCells() {
    return sample == null && where.isEmpty() && !limited;
  }

  /** Whether each cell becomes one row. */
  private boolean ofRows() {
    boolean plain = sample == null && where.isEmpty();
    return table.hasCells() && plain && aggregates == null && known == null;
  }

  public boolean pushLimit(int limit) {
    if (!ofRows()) {
      return false;
    }
    cells = cells.first(limit);
    limited = true;
    pushed.add("LIMIT " + limit);
    return true;
  }

  public boolean pushOffset(int offset) {
    if (!ofRows() || limited) {
      return false;
    }
    Cells left = cells.minus(cells.exactlyFirst(offset));
    if (left.isTooMany()) {
      return false;
    }
    cells = left;
    pushed.add("OFFSET " + offset);
    return true;
  }

  /** The first rows by a dimension: the positions with the first values, and their equals. */
  public boolean pushTopN(SortOrder[] orders, int limit) {
    boolean simple = orders[0].expression() instanceof NamedReference;
    if (!ofRows() || !simple || cells.count() != 1) {
      return false;
    }
    String[] name = ((NamedReference) orders[0].expression()).fieldNames();
    int d = name.length == 1 ? table.dimension(name[0]) : -1;
    if (d < 0 || !table.dimensions()[d].hasValues()) {
      return false;
    }
    cells = cells.along(d, table.dimensions()[d].first(orders[0], cells, d, limit));
    limited = true;
    pushed.add("ORDER BY " + orders[0] + " LIMIT " + limit);
    return true;
  }

  public Scan build() {
    if (known != null) {
      return known;
    }
    boolean cut = named && sample == null && aggregates == null && cells.count() == 1;
    TaskGrid grid = cut && PythonColumns.areThere() ? TaskGrid.of(table, columns) : null;
    return new ArrayScan(table, columns, cells, pushed, sample, where, aggregates, grid);
  }

  /** Conditions on values, all of which have to hold, and the variables that they are about. */
  static final class Where {
    final List conditions = new ArrayList();
    final Set variables = new HashSet();

    boolean isEmpty() {
      return conditions.isEmpty();
    }
  }

  /** A sample of rows, without replacement: those whose number is at least lower, below upper. */
  static final class Sample {
    final double lower;
    final double upper;
    final long seed;

    Sample(double lower, double upper, long seed) {
      this.lower = lower;
      this.upper = upper;
      this.seed = seed;
    }
  }
}
