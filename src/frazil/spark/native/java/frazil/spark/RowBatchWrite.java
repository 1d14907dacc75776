package frazil.spark;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** A batch of rows, staged by Python. */
class RowBatchWrite implements BatchWrite {
  private final BatchWrite staging;
  private final WriteJob job;
  private final PackedRows.Layout packed;

  /** Rows are handed on packed, if `packed` is not null. */
  RowBatchWrite(BatchWrite staging, WriteJob job, PackedRows.Layout packed) {
    this.staging = staging;
    this.job = job;
    this.packed = packed;
  }

  DataWriterFactory stagingFactory(PhysicalWriteInfo info) {
    return staging.createBatchWriterFactory(info);
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new CountedRows(stagingFactory(info), packed);
  }

  public void commit(WriterCommitMessage[] messages) {
    staging.commit(WriteJob.unpack(messages));
    job.finish(messages, null);
  }

  public void abort(WriterCommitMessage[] messages) {
    staging.abort(WriteJob.unpack(messages));
  }
}
