package frazil.spark;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** A batch of rows, staged by Python. */
class RowBatchWrite implements BatchWrite {
  private final BatchWrite staging;
  private final WriteJob job;

  RowBatchWrite(BatchWrite staging, WriteJob job) {
    this.staging = staging;
    this.job = job;
  }

  DataWriterFactory stagingFactory(PhysicalWriteInfo info) {
    return staging.createBatchWriterFactory(info);
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new CountedRows(stagingFactory(info));
  }

  public void commit(WriterCommitMessage[] messages) {
    staging.commit(WriteJob.unpack(messages));
    job.finish(messages, null);
  }

  public void abort(WriterCommitMessage[] messages) {
    staging.abort(WriteJob.unpack(messages));
  }
}
