package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportOrdering;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A decided read of some cells and columns of a table. */
final class ArrayScan
    implements SupportsReportStatistics,
        SupportsReportPartitioning,
        SupportsReportOrdering,
        SupportsRuntimeV2Filtering {
  private final Description table;
  private final StructType columns;
  private final List pushed;
  private final ArrayScanBuilder.Sample sample;
  private final ArrayScanBuilder.Where where;
  private final Aggregates aggregates; // null for rows
  private final TaskGrid grid; // null for tasks without numbers
  private Cells cells;
  private boolean streaming;

  ArrayScan(
      Description table,
      StructType columns,
      Cells cells,
      List pushed,
      ArrayScanBuilder.Sample sample,
      ArrayScanBuilder.Where where,
      Aggregates aggregates,
      TaskGrid grid) {
    this.table = table;
    this.grid = grid;
    this.aggregates = aggregates;
    StructType wanted = columns.length() > 0 ? columns : cheapest(table);
    this.columns = aggregates == null ? wanted : aggregates.schema();
    this.cells = cells;
    this.pushed = pushed;
    this.sample = sample;
    this.where = where;
  }

  /** Spark has no rows without a column: the first is a dimension, which costs least. */
  private static StructType cheapest(Description table) {
    return new StructType(new StructField[] {table.schema().fields()[0]});
  }

  public StructType readSchema() {
    return columns;
  }

  public String description() {
    StringBuilder text = new StringBuilder(table.title());
    if (!table.hasCells()) {
      return text.toString();
    }
    text.append(" at ").append(table.snapshot());
    text.append(", chunks: ").append(chunks(cells)).append(" of ").append(chunks(null));
    text.append(", rows: ").append(cells.size());
    text.append(" of ").append(table.everything().size());
    text.append(", pushed: ").append(pushed);
    if (aggregates != null) {
      text.append(", aggregates: [").append(aggregates).append("]");
    }
    return text.toString();
  }

  /** Chunks of the columns that are read: those that hold one of the cells; null is all. */
  private long chunks(Cells some) {
    long count = 0;
    for (Object each : table.variables()) {
      Description.Variable variable = (Description.Variable) each;
      if (reads(variable.name)) {
        count += some == null ? variable.chunks() : variable.chunks(some);
      }
    }
    return count;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return !streaming && PythonColumns.areThere()
        ? Scan.ColumnarSupportMode.SUPPORTED
        : Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  /** If the Python side tells what it counted. */
  private boolean counted() {
    return table.hasCells() && PythonColumns.areThere();
  }

  public CustomMetric[] supportedCustomMetrics() {
    return counted() && !streaming ? Counters.metrics() : new CustomMetric[0];
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return counted() && !streaming
        ? Counters.planned(chunks(cells), chunks(null), cells.size())
        : new CustomTaskMetric[0];
  }

  private boolean reads(String variable) {
    boolean returned =
        aggregates == null
            ? columns.getFieldIndex(variable).isDefined()
            : aggregates.reads(variable);
    return returned || where.variables.contains(variable);
  }

  public Statistics estimateStatistics() {
    return new ScanStatistics(table, columns, cells, sample, aggregates);
  }

  /** Tasks by their numbers, where a join can use them. */
  public Partitioning outputPartitioning() {
    return grid == null
        ? new UnknownPartitioning(0)
        : new KeyGroupedPartitioning(grid.keys(), grid.numbers(cells).size());
  }

  /** Rows of a task ascend along the dimensions, the last one varies fastest. */
  public SortOrder[] outputOrdering() {
    List orders = new ArrayList();
    boolean strict = table.hasCells() && cells.count() == 1 && aggregates == null;
    for (int d = 0; d < table.dimensions().length && strict; d++) {
      Dimension dimension = table.dimensions()[d];
      boolean there = columns.getFieldIndex(dimension.name()).isDefined();
      Dimension.Order order = there ? dimension.order(cells.product(0)[d]) : null;
      if (order == null) {
        break;
      }
      SortDirection direction =
          order.descending ? SortDirection.DESCENDING : SortDirection.ASCENDING;
      orders.add(Expressions.sort(column(dimension), direction));
      strict = order.strict;
    }
    return (SortOrder[]) orders.toArray(new SortOrder[0]);
  }

  /** Dimensions that a join may narrow while the query runs. */
  public NamedReference[] filterAttributes() {
    List found = new ArrayList();
    for (Dimension dimension : table.dimensions()) {
      boolean rows = aggregates == null;
      if (rows && dimension.hasValues() && columns.getFieldIndex(dimension.name()).isDefined()) {
        found.add(column(dimension));
      }
    }
    return (NamedReference[]) found.toArray(new NamedReference[0]);
  }

  /** Takes lists of values; Spark joins what is read, so other conditions may be ignored. */
  public void filter(Predicate[] predicates) {
    for (Predicate predicate : predicates) {
      Expression[] children = predicate.children();
      if (!"IN".equals(predicate.name()) || !(children[0] instanceof NamedReference)) {
        continue;
      }
      String[] name = ((NamedReference) children[0]).fieldNames();
      int d = name.length == 1 ? table.dimension(name[0]) : -1;
      Set among = new HashSet();
      for (int i = 1; i < children.length; i++) {
        among.add(Dimension.comparable(((Literal) children[i]).value()));
      }
      if (d >= 0) {
        Cells kept = cells.along(d, table.dimensions()[d].among(among));
        cells = kept.isTooMany() ? cells : kept;
      }
    }
  }

  private static NamedReference column(Dimension dimension) {
    return Expressions.column("`" + dimension.name().replace("`", "``") + "`");
  }

  public Batch toBatch() {
    // a sample is drawn in Python, which then sends all columns
    boolean makes = counted() && aggregates == null && sample == null;
    CoordinateColumns made =
        makes
            ? CoordinateColumns.of(table, columns, cells, !where.isEmpty())
            : CoordinateColumns.none(columns);
    return new ArrayBatch(options(made), made, counted(), grid, cells);
  }

  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    streaming = true;
    return Python.stream(table.options(), columns, checkpoint);
  }

  private Map options(CoordinateColumns made) {
    Map options = new HashMap(table.options());
    if (table.snapshot() != null) {
      Map scan = new HashMap();
      scan.put("snapshot", table.snapshot());
      if (table.hasCells()) {
        scan.put("cells", written(cells));
        scan.put("counters", Boolean.valueOf(counted()));
        scan.put("boxes", Boolean.valueOf(made.areSome()));
      }
      if (aggregates != null) {
        scan.put("aggregate", aggregates.told());
      }
      if (!where.isEmpty()) {
        scan.put("where", where.conditions);
      }
      if (grid != null) {
        scan.put("cuts", grid.written());
      }
      if (sample != null) {
        Map told = new HashMap();
        told.put("lower", Double.valueOf(sample.lower));
        told.put("upper", Double.valueOf(sample.upper));
        told.put("seed", Long.valueOf(sample.seed));
        scan.put("sample", told);
      }
      options.put(Python.SCAN, Description.write(scan));
    }
    return options;
  }

  /** A list of products, each a list with the edges of ranges along each dimension. */
  static List written(Cells cells) {
    List products = new ArrayList();
    for (int i = 0; i < cells.count(); i++) {
      List product = new ArrayList();
      for (Ranges along : cells.product(i)) {
        product.add(along.edges());
      }
      products.add(product);
    }
    return products;
  }
}
