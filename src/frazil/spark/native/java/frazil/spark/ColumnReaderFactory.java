package frazil.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;

/** Makes readers that hand Arrow vectors on as they come from Python, without rows. */
final class ColumnReaderFactory implements PartitionReaderFactory {
  private final PartitionReaderFactory rows;
  private final int width;
  private final boolean counted;

  /** <code>rows</code> is Spark's own factory, which has all that a Python reader needs. */
  ColumnReaderFactory(PartitionReaderFactory rows, int width, boolean counted) {
    this.rows = rows;
    this.width = width;
    this.counted = counted;
  }

  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  public PartitionReader createReader(InputPartition partition) {
    throw new UnsupportedOperationException("this reader has columns, not rows");
  }

  public PartitionReader createColumnarReader(InputPartition partition) {
    InputPartition task =
        partition instanceof KeyedPartition ? ((KeyedPartition) partition).task : partition;
    return new ColumnReader(PythonColumns.read(rows, task), width, counted);
  }

  /**
   * Batches of one partition. Each has vectors of its own, which take the memory over from those
   * that Spark's runner fills again and again: an operator may keep a batch while it asks for more,
   * as functions in Python do.
   */
  private static final class ColumnReader implements PartitionReader, TaskCompletionListener {
    private final Iterator batches;
    private final int width;
    private final Counters counters;
    private final BufferAllocator memory;
    private final List given = new ArrayList(); // of ColumnarBatch: some may be closed already
    private ColumnarBatch current;

    ColumnReader(Iterator batches, int width, boolean counted) {
      this.batches = batches;
      this.width = width;
      this.counters = counted ? new Counters() : null;
      this.memory =
          ArrowUtils$.MODULE$.rootAllocator().newChildAllocator("frazil", 0, Long.MAX_VALUE);
      TaskContext.get().addTaskCompletionListener(this);
    }

    public boolean next() throws IOException {
      while (batches.hasNext()) {
        ColumnarBatch batch = (ColumnarBatch) batches.next();
        ArrowColumnVector all = (ArrowColumnVector) batch.column(0);
        if (counters != null && counters.take(all.getChild(width), batch.numRows())) {
          continue;
        }
        ColumnVector[] columns = new ColumnVector[width];
        for (int i = 0; i < width; i++) {
          columns[i] = taken((ArrowColumnVector) all.getChild(i));
        }
        current = new ColumnarBatch(columns, batch.numRows());
        given.add(current);
        return true;
      }
      return false;
    }

    private ColumnVector taken(ArrowColumnVector from) {
      TransferPair pair = from.getValueVector().getTransferPair(memory);
      pair.transfer();
      return new ArrowColumnVector((ValueVector) pair.getTo());
    }

    public Object get() {
      return current;
    }

    public CustomTaskMetric[] currentMetricsValues() {
      return counters == null ? new CustomTaskMetric[0] : counters.values();
    }

    /** Of the partition before, if one task reads several. */
    public void initMetricsValues(CustomTaskMetric[] before) {
      if (counters != null) {
        counters.add(before);
      }
    }

    /** Nothing: the last batch may still be in use. */
    public void close() {}

    public void onTaskCompletion(TaskContext task) {
      for (Object each : given) {
        ((ColumnarBatch) each).close();
      }
      memory.close();
    }
  }
}
