package frazil.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * What a Python reader counted, on its way to Spark's UI.
 *
 * <p>A reader can only return rows. So it has one more column of booleans, which is NULL for every
 * row. The rows of some batches are no rows: their booleans are the bits of counters, 64 of each,
 * the lowest first, to be added to those before.
 */
final class Counters {
  private static final int BITS = 64;
  /** In the order of the bits; native/counters.py has the same. */
  private static final String[] OF_TASKS = {
    "chunksRead", "chunksFromCache", "bytesFetched", "bytesDecoded", "waiting"
  };

  private final long[] counts = new long[OF_TASKS.length];
  private int bits;

  static CustomMetric[] metrics() {
    return new CustomMetric[] {
      new CountMetric("chunksRead", "chunks read"),
      new CountMetric("chunksFromCache", "chunks from cache"),
      new SizeMetric("bytesFetched", "bytes of chunks fetched"),
      new SizeMetric("bytesDecoded", "bytes of chunks decoded"),
      new TimeMetric("waiting", "time waiting for storage"),
      new CountMetric("chunksPlanned", "chunks planned"),
      new CountMetric("chunksPruned", "chunks pruned"),
      new CountMetric("rowsPlanned", "rows planned"),
    };
  }

  /** What the driver knows. */
  static CustomTaskMetric[] planned(long chunks, long allChunks, long rows) {
    return new CustomTaskMetric[] {
      new Value("chunksPlanned", chunks),
      new Value("chunksPruned", allChunks - chunks),
      new Value("rowsPlanned", rows),
    };
  }

  /** The columns and one more, of a name that none of them has. */
  static StructType after(StructType columns) {
    String name = "counters";
    while (columns.getFieldIndex(name).isDefined()) {
      name = name + "_";
    }
    return columns.add(new StructField(name, DataTypes.BooleanType, true, Metadata.empty()));
  }

  /** False if the batch has rows; else takes the bits of it, which may be cut into batches. */
  boolean take(ColumnVector column, int size) {
    if (size == 0 || column.isNullAt(0)) {
      return false;
    }
    for (int row = 0; row < size; row++, bits++) {
      if (column.getBoolean(row)) {
        counts[bits / BITS % counts.length] += 1L << (bits % BITS);
      }
    }
    return true;
  }

  void add(CustomTaskMetric[] others) {
    for (CustomTaskMetric other : others) {
      for (int i = 0; i < counts.length; i++) {
        counts[i] += OF_TASKS[i].equals(other.name()) ? other.value() : 0;
      }
    }
  }

  CustomTaskMetric[] values() {
    CustomTaskMetric[] values = new CustomTaskMetric[counts.length];
    for (int i = 0; i < counts.length; i++) {
      values[i] = new Value(OF_TASKS[i], counts[i]);
    }
    return values;
  }

  private static final class Value implements CustomTaskMetric {
    private final String name;
    private final long value;

    Value(String name, long value) {
      this.name = name;
      this.value = value;
    }

    public String name() {
      return name;
    }

    public long value() {
      return value;
    }
  }
}
