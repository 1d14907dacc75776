package frazil.spark;

import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** Equal to another that reads the same, so that Spark may read once for both. */
final class ArrayBatch implements Batch {
  private final Map options;
  private final StructType columns;
  private final boolean counted;
  private final TaskGrid grid; // null for tasks without numbers
  private final Cells cells;
  private Batch planned;

  /** If <code>counted</code>, the options ask the Python side for a last column of counters. */
  ArrayBatch(Map options, StructType columns, boolean counted, TaskGrid grid, Cells cells) {
    this.options = options;
    this.columns = columns;
    this.counted = counted;
    this.grid = grid;
    this.cells = cells;
  }

  private Batch planned() {
    if (planned == null) {
      planned = Python.batch(options, counted ? Counters.after(columns) : columns);
    }
    return planned;
  }

  public InputPartition[] planInputPartitions() {
    InputPartition[] tasks = planned().planInputPartitions();
    return grid == null ? tasks : grid.keyed(tasks, cells);
  }

  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory rows = planned().createReaderFactory();
    return PythonColumns.areThere()
        ? new ColumnReaderFactory(rows, columns.length(), counted)
        : rows;
  }

  public boolean equals(Object other) {
    return other instanceof ArrayBatch
        && options.equals(((ArrayBatch) other).options)
        && columns.equals(((ArrayBatch) other).columns);
  }

  public int hashCode() {
    return options.hashCode() * 31 + columns.hashCode();
  }
}
