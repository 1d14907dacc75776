package frazil.spark;

import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.Iterator;
import scala.collection.Iterator$;

/** Makes readers of columns, without rows: those that Python sends, and those of coordinates. */
final class ColumnReaderFactory implements PartitionReaderFactory {
  private final PartitionReaderFactory rows; // null if Python sends nothing
  private final CoordinateColumns columns;
  private final boolean counted;

  /** <code>rows</code> is Spark's own factory, which has all that a Python reader needs. */
  ColumnReaderFactory(PartitionReaderFactory rows, CoordinateColumns columns, boolean counted) {
    this.rows = rows;
    this.columns = columns;
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
    if (task instanceof BoxPartition) {
      return new ColumnReader(Iterator$.MODULE$.empty(), columns, counted, ((BoxPartition) task).box);
    }
    return new ColumnReader(PythonColumns.read(rows, task), columns, counted, null);
  }

  /** Batches of one partition. An operator may keep some while it asks for more. */
  private static final class ColumnReader implements PartitionReader {
    /** Few enough for a processor's cache; a multiple of 8, as validity has a bit for each. */
    private static final int MOST_ROWS = 4096;

    private final Iterator batches; // from Python
    private final CoordinateColumns columns;
    private final Counters counters; // null if Python counts nothing
    private CoordinateColumns.Rows cells; // null if no cells are known
    private long done; // rows that were given
    private SentColumn[] sent; // of the current batch from Python
    private long start; // row of it that comes next
    private long stop;
    private ColumnarBatch current;

    /** <code>box</code> has the rows if no batches come from Python, else it is null. */
    ColumnReader(Iterator batches, CoordinateColumns columns, boolean counted, Ranges[] box) {
      this.batches = batches;
      this.columns = columns;
      this.counters = counted ? new Counters() : null;
      if (box != null) {
        cells = columns.rows(box);
        stop = cells.count;
      }
    }

    public boolean next() {
      while (start == stop) {
        if (!batches.hasNext()) {
          return false;
        }
        take((ColumnarBatch) batches.next());
      }
      int rows = (int) Math.min(MOST_ROWS, stop - start);
      ColumnVector[] made = new ColumnVector[columns.all().length()];
      int next = 0;
      WritableColumnVector numbers =
          columns.areNumbered() ? sent[sent.length - 1].part((int) start, rows) : null;
      for (int i = 0; i < made.length; i++) {
        if (columns.isSent(i)) {
          made[i] = sent[next++].part((int) start, rows);
        } else if (numbers != null) {
          made[i] = cells.column(i, numbers, rows);
        } else {
          made[i] = cells.column(i, done, rows);
        }
      }
      current = new ColumnarBatch(made, rows);
      start += rows;
      done += rows;
      return true;
    }

    private void take(ColumnarBatch batch) {
      ArrowColumnVector all = (ArrowColumnVector) batch.column(0);
      int width = columns.sent().length();
      if (counters != null && counters.take(all.getChild(width), batch.numRows())) {
        cells = cells == null && counters.box() != null ? columns.rows(counters.box()) : cells;
        return;
      }
      if (columns.areSome() && done + batch.numRows() > (cells == null ? 0 : cells.count)) {
        throw new IllegalStateException("more rows than cells came from Python");
      }
      sent = new SentColumn[width];
      for (int i = 0; i < width; i++) {
        sent[i] = new SentColumn((ArrowColumnVector) all.getChild(i));
      }
      start = 0;
      stop = batch.numRows();
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

    public void close() {}
  }
}
