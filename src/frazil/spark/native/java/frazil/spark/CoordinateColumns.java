package frazil.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Columns of a scan that are made on executors from the values of coordinates. All other columns
 * come from Python.
 */
final class CoordinateColumns implements Serializable {
  /** A coordinate with more values is not brought to executors. */
  private static final long MOST_VALUES = 1L << 20;

  private final StructType columns;
  private final int[] dimensions; // per column: its dimension, -1 if it comes from Python
  private final Coordinate[] coordinates; // per column: null if it comes from Python
  private final DataType number; // of a row in its box; null if all cells of a box are rows

  private CoordinateColumns(StructType columns, DataType number) {
    this.columns = columns;
    this.number = number;
    this.coordinates = new Coordinate[columns.length()];
    this.dimensions = new int[columns.length()];
    Arrays.fill(dimensions, -1);
  }

  /** All columns come from Python. */
  static CoordinateColumns none(StructType columns) {
    return new CoordinateColumns(columns, null);
  }

  /**
   * Those of a scan of some cells. Which columns are made does not depend on the cells: a join may
   * narrow them, and then hands tasks of the narrow scan to the readers of the wide one. If cells
   * are <code>filtered</code> by their values, Python sends the number of each row in its box.
   */
  static CoordinateColumns of(
      Description table, StructType columns, Cells cells, boolean filtered) {
    boolean few = table.everything().size() <= Integer.MAX_VALUE;
    DataType number = few ? DataTypes.IntegerType : DataTypes.LongType;
    CoordinateColumns made = new CoordinateColumns(columns, filtered ? number : null);
    for (int i = 0; i < columns.length(); i++) {
      int d = table.dimension(columns.fields()[i].name());
      Dimension dimension = d < 0 ? null : table.dimensions()[d];
      if (d >= 0 && dimension.hasValues() && dimension.size() <= MOST_VALUES) {
        long[] extent = extent(cells, d);
        made.dimensions[i] = d;
        made.coordinates[i] = Coordinate.of(dimension, extent[0], extent[1]);
      }
    }
    return made;
  }

  /** The first position of cells along a dimension, and the end. */
  private static long[] extent(Cells cells, int d) {
    long[] extent = cells.count() == 0 ? new long[] {0, 0} : new long[] {Long.MAX_VALUE, 0};
    for (int i = 0; i < cells.count(); i++) {
      long[] edges = cells.product(i)[d].edges();
      extent[0] = Math.min(extent[0], edges[0]);
      extent[1] = Math.max(extent[1], edges[edges.length - 1]);
    }
    return extent;
  }

  StructType all() {
    return columns;
  }

  /** Whether any column is made here. */
  boolean areSome() {
    for (int dimension : dimensions) {
      if (dimension >= 0) {
        return true;
      }
    }
    return false;
  }

  /** Whether the last column that comes from Python has the number of each row in its box. */
  boolean areNumbered() {
    return number != null && areSome();
  }

  /** Columns that come from Python. */
  StructType sent() {
    List sent = new ArrayList();
    for (int i = 0; i < dimensions.length; i++) {
      if (isSent(i)) {
        sent.add(columns.fields()[i]);
      }
    }
    StructType found = new StructType((StructField[]) sent.toArray(new StructField[0]));
    return areNumbered() ? Counters.after(found, "rows", number) : found;
  }

  boolean isSent(int column) {
    return dimensions[column] < 0;
  }

  /** The columns of the cells of one box. */
  Rows rows(Ranges[] box) {
    return new Rows(this, box);
  }

  /** Rows of a box: its cells one by one, the last dimension varies fastest. */
  static final class Rows {
    final long count;
    private final Coordinate[] along; // per column
    private final long[] inner; // per column: rows before the next value
    private final long[] sizes; // per column: values before they begin again

    private Rows(CoordinateColumns columns, Ranges[] box) {
      int width = columns.all().length();
      along = new Coordinate[width];
      inner = new long[width];
      sizes = new long[width];
      long rows = 1;
      for (int d = box.length - 1; d >= 0; d--) {
        for (int i = 0; i < width; i++) {
          if (columns.dimensions[i] == d) {
            along[i] = columns.coordinates[i].at(box[d]);
            inner[i] = rows;
            sizes[i] = box[d].size();
          }
        }
        rows *= box[d].size();
      }
      count = rows;
    }

    /** A column of the rows with some numbers. */
    WritableColumnVector column(int i, WritableColumnVector numbers, int rows) {
      WritableColumnVector into = new OnHeapColumnVector(rows, along[i].type());
      for (int done = 0; done < rows; ) {
        long value = number(numbers, done) / inner[i];
        int run = 1;
        while (done + run < rows && number(numbers, done + run) / inner[i] == value) {
          run++;
        }
        along[i].repeat((int) (value % sizes[i]), into, done, run);
        done += run;
      }
      return into;
    }

    private static long number(WritableColumnVector numbers, int row) {
      boolean few = numbers.dataType() instanceof IntegerType;
      return few ? numbers.getInt(row) : numbers.getLong(row);
    }

    /** A column of rows that follow each other. */
    WritableColumnVector column(int i, long start, int rows) {
      WritableColumnVector into = new OnHeapColumnVector(rows, along[i].type());
      int done = 0;
      while (done < rows) {
        long row = start + done;
        int at = (int) (row / inner[i] % sizes[i]);
        long most = inner[i] == 1 ? sizes[i] - at : inner[i] - row % inner[i];
        int run = (int) Math.min(most, rows - done);
        if (inner[i] == 1) {
          along[i].copy(at, into, done, run);
        } else {
          along[i].repeat(at, into, done, run);
        }
        done += run;
      }
      return into;
    }
  }
}
