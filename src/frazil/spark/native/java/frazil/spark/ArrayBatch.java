package frazil.spark;

import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** Equal to another that reads the same, so that Spark may read once for both. */
final class ArrayBatch implements Batch {
  private static final long ROWS = 1L << 22; // of a task without Python

  private final Map options;
  private final CoordinateColumns columns;
  private final boolean counted;
  private final TaskGrid grid; // null for tasks without numbers
  private final Cells cells;
  private Batch planned;

  /** If <code>counted</code>, the options ask the Python side for a last column of counters. */
  ArrayBatch(
      Map options, CoordinateColumns columns, boolean counted, TaskGrid grid, Cells cells) {
    this.options = options;
    this.columns = columns;
    this.counted = counted;
    this.grid = grid;
    this.cells = cells;
  }

  private boolean needsPython() {
    return columns.sent().length() > 0;
  }

  private Batch planned() {
    if (planned == null) {
      StructType sent = columns.sent();
      planned = Python.batch(options, counted ? Counters.after(sent) : sent);
    }
    return planned;
  }

  public InputPartition[] planInputPartitions() {
    if (needsPython()) {
      InputPartition[] tasks = planned().planInputPartitions();
      return grid == null ? tasks : grid.keyed(tasks, cells);
    }
    return grid == null ? BoxPartition.of(cells, ROWS) : grid.keyed(grid.boxes(cells), cells);
  }

  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory rows = needsPython() ? planned().createReaderFactory() : null;
    return PythonColumns.areThere() ? new ColumnReaderFactory(rows, columns, counted) : rows;
  }

  public boolean equals(Object other) {
    return other instanceof ArrayBatch
        && options.equals(((ArrayBatch) other).options)
        && columns.all().equals(((ArrayBatch) other).columns.all());
  }

  public int hashCode() {
    return options.hashCode() * 31 + columns.all().hashCode();
  }
}
