package frazil.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Changes of rows, one by one as Spark hands them over, staged as rows with an operation.
 *
 * <p>A row that is written has all columns; one that is deleted has those that locate it. Python
 * takes many rows at once, so they are gathered first.
 */
final class DeltaRows extends RowBatchWrite implements DeltaBatchWrite {
  private final StructType schema;
  private final StructType rowId;

  /** The last column of the schema is the operation. */
  DeltaRows(BatchWrite staging, WriteJob job, StructType schema, StructType rowId) {
    super(staging, job, null);
    this.schema = schema;
    this.rowId = rowId;
  }

  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new Factory(stagingFactory(info), schema, rowId);
  }

  private static final class Factory implements DeltaWriterFactory {
    private final DataWriterFactory staging;
    private final StructType schema;
    private final StructType rowId;

    Factory(DataWriterFactory staging, StructType schema, StructType rowId) {
      this.staging = staging;
      this.schema = schema;
      this.rowId = rowId;
    }

    public DeltaWriter createWriter(int partition, long task) {
      return new Writer(staging, schema, rowId, partition, task);
    }
  }

  private static final class Writer implements DeltaWriter {
    private static final int GATHERED = 1 << 17; // rows
    private static final Byte WRITE = Byte.valueOf((byte) 0);
    private static final Byte DELETE = Byte.valueOf((byte) 1);

    private final DataWriterFactory staging;
    private final int partition;
    private final long task;
    private final DataType[] types; // of the columns, without the operation
    private final int[] located; // by columns: which field of the row's id it is, or -1
    private final UnsafeProjection copies;
    private final List messages = new ArrayList();
    private List gathered = new ArrayList();
    private long rows;

    Writer(
        DataWriterFactory staging, StructType schema, StructType rowId, int partition, long task) {
      this.staging = staging;
      this.partition = partition;
      this.task = task;
      StructField[] fields = schema.fields();
      types = new DataType[fields.length - 1];
      located = new int[types.length];
      for (int i = 0; i < types.length; i++) {
        types[i] = fields[i].dataType();
        scala.Option index = rowId.getFieldIndex(fields[i].name());
        located[i] = index.isDefined() ? ((Integer) index.get()).intValue() : -1;
      }
      copies = UnsafeProjection.create(schema);
    }

    public void insert(Object row) throws IOException {
      write(row);
    }

    public void write(Object given) throws IOException {
      Object[] values = new Object[types.length + 1];
      for (int i = 0; i < types.length; i++) {
        values[i] = ((InternalRow) given).get(i, types[i]);
      }
      values[types.length] = WRITE;
      gather(values);
    }

    public void delete(Object metadata, Object id) throws IOException {
      Object[] values = new Object[types.length + 1];
      for (int i = 0; i < types.length; i++) {
        values[i] = located[i] < 0 ? null : ((InternalRow) id).get(located[i], types[i]);
      }
      values[types.length] = DELETE;
      gather(values);
    }

    /** A row that goes to another place leaves its own. */
    public void update(Object metadata, Object id, Object given) throws IOException {
      InternalRow row = (InternalRow) given;
      boolean moves = false;
      for (int i = 0; i < types.length; i++) {
        if (located[i] >= 0) {
          Object from = ((InternalRow) id).get(located[i], types[i]);
          moves |= !from.equals(row.get(i, types[i]));
        }
      }
      if (moves) {
        delete(metadata, id);
      }
      write(row);
    }

    /** Spark uses the memory of a row for the next one. */
    private void gather(Object[] values) throws IOException {
      gathered.add(copies.apply(new GenericInternalRow(values)).copy());
      rows++;
      if (gathered.size() == GATHERED) {
        stage();
      }
    }

    private void stage() throws IOException {
      DataWriter python = staging.createWriter(partition, task);
      try {
        python.writeAll(gathered.iterator());
        messages.add(python.commit());
      } finally {
        python.close();
      }
      gathered = new ArrayList();
    }

    public WriterCommitMessage commit() throws IOException {
      if (!gathered.isEmpty()) {
        stage();
      }
      return WriteJob.pack(messages, rows);
    }

    /** What was staged is left to garbage collection. */
    public void abort() {}

    public void close() {}
  }
}
