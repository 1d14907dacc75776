package frazil.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Tasks cut at the same values of coordinates in every table that is chunked alike, each known by
 * its number along each dimension.
 *
 * <p>There is one only if each dimension is a column that is read, ascends or descends strictly and
 * is no float: those Spark normalises in joins, and then does not see the tasks in them.
 */
final class TaskGrid {
  private static final long BYTES = 32L << 20; // of a task, unless the option says another size
  private static final long BYTES_PER_CELL = 8; // whatever the type: see cut()
  private static final long MOST_TASKS = 10000;

  private final long[][] edges; // per dimension: positions where a task begins, and the end
  private final ChunkNumber[] functions;
  private final Description table;

  private TaskGrid(Description table, long[][] edges, ChunkNumber[] functions) {
    this.table = table;
    this.edges = edges;
    this.functions = functions;
  }

  /** Null if there is none. */
  static TaskGrid of(Description table, StructType columns) {
    Dimension[] dimensions = table.dimensions();
    if (!table.hasCells() || dimensions.length == 0) {
      return null;
    }
    ChunkNumber[] functions = new ChunkNumber[dimensions.length];
    Dimension.Order[] orders = new Dimension.Order[dimensions.length];
    for (int d = 0; d < dimensions.length; d++) {
      boolean there = columns.getFieldIndex(dimensions[d].name()).isDefined();
      if (!there || !dimensions[d].isAtHand() || isFloat(dimensions[d])) {
        return null;
      }
      orders[d] = dimensions[d].order(Ranges.of(0, dimensions[d].size()));
      if (orders[d] == null || !orders[d].strict) {
        return null;
      }
    }
    long[][] edges = cut(table);
    long tasks = 1;
    for (int d = 0; d < dimensions.length; d++) {
      Object[] cuts = new Object[edges[d].length - 2];
      for (int i = 0; i < cuts.length; i++) {
        cuts[i] = dimensions[d].values()[(int) edges[d][i + 1]];
      }
      functions[d] = ChunkNumber.of(dimensions[d].type(), cuts, orders[d].descending);
      tasks *= edges[d].length - 1;
    }
    return tasks > 1 && tasks <= MOST_TASKS ? new TaskGrid(table, edges, functions) : null;
  }

  private static boolean isFloat(Dimension dimension) {
    return dimension.type() instanceof FloatType || dimension.type() instanceof DoubleType;
  }

  /** Cuts between chunks of all variables, so that it does not matter which are read. */
  private static long[][] cut(Description table) {
    Dimension[] dimensions = table.dimensions();
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(table.options());
    long most = options.getLong("partitionBytes", BYTES) / BYTES_PER_CELL;
    long[] steps = new long[dimensions.length];
    long cells = 1;
    for (int d = 0; d < steps.length; d++) {
      for (Object each : table.variables()) {
        steps[d] = Math.max(steps[d], ((Description.Variable) each).chunk(d));
      }
      steps[d] = Math.max(1, Math.min(steps[d], dimensions[d].size()));
      cells *= steps[d];
    }
    for (int d = steps.length - 1; d >= 0; d--) {
      long chunks = (dimensions[d].size() + steps[d] - 1) / steps[d];
      long merged = Math.max(1, Math.min(chunks, most / cells));
      steps[d] *= merged;
      cells *= merged;
    }
    long[][] edges = new long[steps.length][];
    for (int d = 0; d < steps.length; d++) {
      int count = (int) ((dimensions[d].size() + steps[d] - 1) / steps[d]);
      edges[d] = new long[count + 1];
      for (int i = 0; i <= count; i++) {
        edges[d][i] = Math.min(i * steps[d], dimensions[d].size());
      }
    }
    return edges;
  }

  /** Positions where tasks begin along each dimension, and the end, for the Python side. */
  List written() {
    List all = new ArrayList();
    for (long[] along : edges) {
      all.add(along);
    }
    return all;
  }

  Expression[] keys() {
    Expression[] keys = new Expression[functions.length];
    for (int d = 0; d < keys.length; d++) {
      String name = table.dimensions()[d].name().replace("`", "``");
      keys[d] =
          Expressions.apply(
              functions[d].name(), new Expression[] {Expressions.column("`" + name + "`")});
    }
    return keys;
  }

  /** The numbers of each task that reads some of the cells, in the order of the Python side. */
  List numbers(Cells cells) {
    List found = new ArrayList();
    if (cells.count() == 1) {
      add(cells.product(0), 0, new Object[edges.length], found);
    }
    return found;
  }

  /** The tasks, in the same order, if Python sends nothing. */
  InputPartition[] boxes(Cells cells) {
    List numbers = numbers(cells);
    InputPartition[] boxes = new InputPartition[numbers.size()];
    for (int i = 0; i < boxes.length; i++) {
      Object[] number = (Object[]) numbers.get(i);
      Ranges[] box = new Ranges[number.length];
      for (int d = 0; d < box.length; d++) {
        int at = ((Integer) number[d]).intValue();
        box[d] = cells.product(0)[d].and(Ranges.of(edges[d][at], edges[d][at + 1]));
      }
      boxes[i] = new BoxPartition(box);
    }
    return boxes;
  }

  private void add(Ranges[] product, int d, Object[] numbers, List found) {
    if (d == edges.length) {
      Object[] key = new Object[d];
      System.arraycopy(numbers, 0, key, 0, d);
      found.add(key);
      return;
    }
    for (int i = 0; i + 1 < edges[d].length; i++) {
      if (!product[d].and(Ranges.of(edges[d][i], edges[d][i + 1])).isEmpty()) {
        numbers[d] = Integer.valueOf(i);
        add(product, d + 1, numbers, found);
      }
    }
  }

  /** The tasks, each with its numbers. */
  InputPartition[] keyed(InputPartition[] tasks, Cells cells) {
    List numbers = numbers(cells);
    if (numbers.size() != tasks.length && !numbers.isEmpty()) {
      throw new IllegalStateException(
          tasks.length + " tasks were planned where " + numbers.size() + " were expected");
    }
    InputPartition[] keyed = new InputPartition[numbers.size()];
    for (int i = 0; i < keyed.length; i++) {
      keyed[i] = new KeyedPartition(tasks[i], new GenericInternalRow((Object[]) numbers.get(i)));
    }
    return keyed;
  }
}
