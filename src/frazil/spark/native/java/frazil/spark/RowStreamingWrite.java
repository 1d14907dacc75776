package frazil.spark;

import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** Batches of rows of a stream, each staged by Python and committed once. */
final class RowStreamingWrite implements StreamingWrite {
  private final StreamingWrite staging;
  private final WriteJob job;
  private final PackedRows.Layout packed;

  /** Rows are handed on packed, if `packed` is not null. */
  RowStreamingWrite(StreamingWrite staging, WriteJob job, PackedRows.Layout packed) {
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
