package frazil.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;

/** A task with its numbers along the dimensions. */
final class KeyedPartition implements HasPartitionKey {
  final InputPartition task;
  private final InternalRow key;

  KeyedPartition(InputPartition task, InternalRow key) {
    this.task = task;
    this.key = key;
  }

  public InternalRow partitionKey() {
    return key;
  }
}
