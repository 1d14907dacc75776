package frazil.spark;

import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/** Batches of rows of a stream, each staged by Python and committed once. */
final class RowStreamingWrite implements StreamingWrite {
  private final StreamingWrite staging;
  private final WriteJob job;
  private final StructType packed;

  /** Rows of the columns `packed` are handed on packed, if it is not null. */
  RowStreamingWrite(StreamingWrite staging, WriteJob job, StructType packed) {
    this.staging = staging;
    this.job = job;
    this.packed = packed;
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new CountedRows(staging.createStreamingWriterFactory(info), packed);
  }

  public void commit(long epoch, WriterCommitMessage[] messages) {
    staging.commit(epoch, WriteJob.unpack(messages));
    job.finish(messages, Long.valueOf(epoch));
  }

  public void abort(long epoch, WriterCommitMessage[] messages) {
    staging.abort(epoch, WriteJob.unpack(messages));
  }
}
