package frazil.spark;

import java.io.IOException;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
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

  /** Batches of one partition. Spark's runner owns the vectors, and frees them with the task. */
  private static final class ColumnReader implements PartitionReader {
    private final Iterator batches;
    private final ColumnVector[] columns;
    private final Counters counters;
    private Object received;
    private ColumnarBatch current;

    ColumnReader(Iterator batches, int width, boolean counted) {
      this.batches = batches;
      this.columns = new ColumnVector[width];
      this.counters = counted ? new Counters() : null;
    }

    public boolean next() throws IOException {
      while (batches.hasNext()) {
        ColumnarBatch batch = (ColumnarBatch) batches.next();
        ArrowColumnVector all = (ArrowColumnVector) batch.column(0);
        if (counters != null && counters.take(all.getChild(columns.length), batch.numRows())) {
          continue;
        }
        if (received != batch) { // Spark's runner fills the same vectors again and again
          received = batch;
          for (int i = 0; i < columns.length; i++) {
            columns[i] = new Lent(all.getChild(i));
          }
          current = new ColumnarBatch(columns);
        }
        current.setNumRows(batch.numRows());
        return true;
      }
      return false;
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

    /** Nothing: Spark's runner has asked the task to tell it when it ends, however it ends. */
    public void close() {}
  }

  /** A vector that its user cannot free, as Spark does with each batch: it will be filled again. */
  private static final class Lent extends ArrowColumnVector {
    Lent(ColumnVector vector) {
      super(((ArrowColumnVector) vector).getValueVector());
    }

    public void close() {}
  }
}
