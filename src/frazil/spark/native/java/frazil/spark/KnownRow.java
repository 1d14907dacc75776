package frazil.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.math.Ordering;

/**
 * One row of aggregates over all cells that the description of the table answers: number of rows,
 * and count, minimum and maximum of coordinates. Nothing is read, and no task runs.
 */
final class KnownRow implements LocalScan {
  private final Description table;
  private final Cells cells;
  private StructType schema = new StructType();
  private final Object[] row;

  private KnownRow(Description table, Cells cells, int columns) {
    this.table = table;
    this.cells = cells;
    this.row = new Object[columns];
  }

  /** Null if there are groups, or anything else is asked for. */
  static KnownRow of(Aggregation asked, Description table, Cells cells) {
    AggregateFunc[] functions = asked.aggregateExpressions();
    if (!table.hasCells() || asked.groupByExpressions().length > 0 || functions.length == 0) {
      return null;
    }
    KnownRow found = new KnownRow(table, cells, functions.length);
    for (int i = 0; i < functions.length; i++) {
      if (!found.set(i, functions[i])) {
        return null;
      }
    }
    return found;
  }

  private boolean set(int i, AggregateFunc function) {
    DataType type = DataTypes.LongType;
    if (function instanceof CountStar) {
      row[i] = Long.valueOf(cells.size());
    } else {
      boolean known =
          function instanceof Min
              || function instanceof Max
              || (function instanceof Count && !((Count) function).isDistinct());
      int d = known ? dimension(function.children()[0]) : -1;
      if (d < 0 || !table.dimensions()[d].hasValues()) {
        return false;
      }
      if (function instanceof Count) {
        row[i] = Long.valueOf(count(d));
      } else {
        type = table.dimensions()[d].type();
        row[i] = extreme(d, function instanceof Max ? 1 : -1);
      }
    }
    schema = schema.add(function + " " + i, type, true);
    return true;
  }

  private int dimension(Expression of) {
    boolean plain = of instanceof NamedReference && ((NamedReference) of).fieldNames().length == 1;
    return plain ? table.dimension(((NamedReference) of).fieldNames()[0]) : -1;
  }

  /** Number of cells whose coordinate is not NULL. */
  private long count(int d) {
    Object[] values = table.dimensions()[d].values();
    long count = 0;
    for (int i = 0; i < cells.count(); i++) {
      long others = 1;
      long present = 0;
      Ranges[] product = cells.product(i);
      for (int k = 0; k < product.length; k++) {
        others *= k == d ? 1 : product[k].size();
      }
      long[] edges = product[d].edges();
      for (int e = 0; e < edges.length; e += 2) {
        for (long at = edges[e]; at < edges[e + 1]; at++) {
          present += values[(int) at] == null ? 0 : 1;
        }
      }
      count += others * present;
    }
    return count;
  }

  /** The greatest coordinate (sign 1) or the least (sign -1), in Spark's order. */
  private Object extreme(int d, int sign) {
    Object[] values = table.dimensions()[d].values();
    Ordering order = TypeUtils.getInterpretedOrdering(table.dimensions()[d].type());
    Object best = null;
    long[] edges = cells.along(d).edges();
    for (int e = 0; e < edges.length; e += 2) {
      for (long at = edges[e]; at < edges[e + 1]; at++) {
        Object value = values[(int) at];
        if (value != null && (best == null || sign * order.compare(value, best) > 0)) {
          best = value;
        }
      }
    }
    return best;
  }

  public InternalRow[] rows() {
    return new InternalRow[] {new GenericInternalRow(row)};
  }

  public StructType readSchema() {
    return schema;
  }

  public String description() {
    return table.title() + " at " + table.snapshot() + ", chunks: 0 of 0, known";
  }
}
