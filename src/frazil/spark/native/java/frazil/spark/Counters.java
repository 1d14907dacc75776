package frazil.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * Numbers from a Python reader beside its rows: what it counted, on its way to Spark's UI, and which
 * cells its rows are.
 *
 * <p>A reader can only return rows. So it has one more column of booleans, which is NULL for every
 * row. The rows of some batches are no rows: their booleans are the bits of numbers, 64 of each, the
 * lowest first. A message is the number of numbers that follow, the counters, to be added to those
 * before, and, if more follows, a box: for each dimension the number of edges of its ranges, and the
 * edges.
 */
final class Counters {
  private static final int BITS = 64;
  /** In the order of the bits; native/counters.py has the same. */
  private static final String[] OF_TASKS = {
    "chunksRead", "chunksFromCache", "bytesFetched", "bytesDecoded", "waiting"
  };

  private final long[] counts = new long[OF_TASKS.length];
  private long[] message = new long[16];
  private int bits; // of the message, so far
  private Ranges[] box;

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

  /** The columns and one more for counters. */
  static StructType after(StructType columns) {
    return after(columns, "counters", DataTypes.BooleanType);
  }

  /** The columns and one more, of a name that none of them has. */
  static StructType after(StructType columns, String name, DataType type) {
    while (columns.getFieldIndex(name).isDefined()) {
      name = name + "_";
    }
    return columns.add(new StructField(name, type, true, Metadata.empty()));
  }

  /** False if the batch has rows; else takes the bits of it, which may be cut into batches. */
  boolean take(ColumnVector column, int size) {
    if (size == 0 || column.isNullAt(0)) {
      return false;
    }
    for (int row = 0; row < size; row++) {
      int at = bits / BITS;
      if (at == message.length) {
        message = Arrays.copyOf(message, 2 * at);
      }
      message[at] |= column.getBoolean(row) ? 1L << (bits % BITS) : 0;
      bits++;
      if (bits % BITS == 0 && bits / BITS > message[0]) {
        read();
        Arrays.fill(message, 0);
        bits = 0;
      }
    }
    return true;
  }

  private void read() {
    for (int i = 0; i < counts.length; i++) {
      counts[i] += message[i + 1];
    }
    List found = new ArrayList();
    for (int at = counts.length + 1; at <= message[0]; ) {
      int stop = at + 1 + (int) message[at];
      found.add(Ranges.of(Arrays.copyOfRange(message, at + 1, stop)));
      at = stop;
    }
    if (!found.isEmpty()) {
      box = (Ranges[]) found.toArray(new Ranges[0]);
    }
  }

  /** The cells of the rows that follow, null if that was not told. */
  Ranges[] box() {
    return box;
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
