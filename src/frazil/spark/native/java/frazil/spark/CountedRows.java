package frazil.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** Writers of Spark's Python data source that say how many rows they staged. */
final class CountedRows implements DataWriterFactory, StreamingDataWriterFactory {
  private final Serializable factory; // of batches or of streams
  private final PackedRows.Layout packed; // of rows that are handed on packed, or null

  CountedRows(Serializable factory, PackedRows.Layout packed) {
    this.factory = factory;
    this.packed = packed;
  }

  public DataWriter createWriter(int partition, long task) {
    return new Writer(((DataWriterFactory) factory).createWriter(partition, task), packed);
  }

  public DataWriter createWriter(int partition, long task, long epoch) {
    DataWriter python = ((StreamingDataWriterFactory) factory).createWriter(partition, task, epoch);
    return new Writer(python, packed);
  }

  /** Hands rows on; Python takes all of them at once. */
  private static final class Writer implements DataWriter {
    private final DataWriter python;
    private final PackedRows.Layout packed;
    private long rows;

    Writer(DataWriter python, PackedRows.Layout packed) {
      this.python = python;
      this.packed = packed;
    }

    public void writeAll(final Iterator given) throws IOException {
      if (packed != null) {
        PackedRows values = new PackedRows(given, packed);
        python.writeAll(values);
        rows = values.rows();
        return;
      }
      python.writeAll(
          new Iterator() {
            public boolean hasNext() {
              return given.hasNext();
            }

            public Object next() {
              rows++;
              return given.next();
            }
          });
    }

    public void write(Object row) throws IOException {
      throw new UnsupportedOperationException("rows are written all at once");
    }

    public WriterCommitMessage commit() throws IOException {
      return WriteJob.pack(Collections.singletonList(python.commit()), rows);
    }

    public void abort() throws IOException {
      python.abort();
    }

    public void close() throws IOException {
      python.close();
    }

    public CustomTaskMetric[] currentMetricsValues() {
      return python.currentMetricsValues();
    }
  }
}
