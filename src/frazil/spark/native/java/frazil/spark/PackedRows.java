package frazil.spark;

import java.io.Serializable;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows on their way to Python, some dozens of them in one value.
 *
 * <p>Spark hands rows to Python value by value, each through several calls, which takes longer than
 * all else of a write. Here the values of numbers, times and booleans are put next to each other,
 * column by column, and Spark hands over the bytes.
 *
 * <p>All values are of one size: the number of rows, eight bytes; for each column eight bytes of
 * bits that are set where it is NULL; for each column the values. The last one may not be full.
 */
final class PackedRows implements Iterator {
  static final StructType SCHEMA =
      new StructType().add("frazilRows", DataTypes.BinaryType, false);

  private final Iterator given;
  private final Layout layout;
  private final GenericInternalRow packed = new GenericInternalRow(1);
  private long rows;

  PackedRows(Iterator given, Layout layout) {
    this.given = given;
    this.layout = layout;
  }

  /** How rows of some columns are packed. */
  static final class Layout implements Serializable {
    private static final int MOST_ROWS = 64; // as many as a number has bits
    private static final int MOST_BYTES = 4096; // of a value
    private static final long BATCH_BYTES = 64L << 20; // Spark makes batches of many values

    final StructType schema;
    final int capacity; // rows
    private final int[] kinds;
    private final int[] widths;
    private final int[] starts;
    private final int size; // bytes

    private Layout(StructType schema, int[] kinds, int capacity) {
      this.schema = schema;
      this.kinds = kinds;
      this.capacity = capacity;
      widths = new int[kinds.length];
      starts = new int[kinds.length];
      int at = 8 * (1 + kinds.length);
      for (int i = 0; i < kinds.length; i++) {
        widths[i] = width(kinds[i]);
        starts[i] = at;
        at += capacity * widths[i];
      }
      size = at;
    }

    /**
     * Null if there is a column whose values are of no fixed size, or none at all.
     *
     * <p>Spark makes batches of `batch` values, or of all that there are, if that is not positive.
     */
    static Layout of(StructType schema, int batch) {
      StructField[] fields = schema.fields();
      int[] kinds = new int[fields.length];
      long row = 0;
      for (int i = 0; i < fields.length; i++) {
        kinds[i] = kind(fields[i].dataType());
        if (kinds[i] == 0) {
          return null;
        }
        row += width(kinds[i]);
      }
      if (row == 0) {
        return null;
      }
      long most = batch > 0 ? Math.min(MOST_BYTES, BATCH_BYTES / batch) : MOST_BYTES;
      int capacity = MOST_ROWS;
      while (capacity > 1 && capacity * row > most) {
        capacity /= 2;
      }
      return new Layout(schema, kinds, capacity);
    }
  }

  private static int kind(DataType type) {
    if (type.equals(DataTypes.BooleanType)) {
      return 1;
    } else if (type.equals(DataTypes.ByteType)) {
      return 2;
    } else if (type.equals(DataTypes.ShortType)) {
      return 3;
    } else if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
      return 4;
    } else if (type.equals(DataTypes.FloatType)) {
      return 5;
    } else if (type.equals(DataTypes.DoubleType)) {
      return 6;
    } else if (type.equals(DataTypes.LongType)
        || type.equals(DataTypes.TimestampType)
        || type.equals(DataTypes.TimestampNTZType)) {
      return 7;
    }
    return 0;
  }

  private static int width(int kind) {
    return kind <= 2 ? 1 : kind == 3 ? 2 : kind <= 5 ? 4 : 8;
  }

  /** Rows that were taken so far. */
  long rows() {
    return rows;
  }

  public boolean hasNext() {
    return given.hasNext();
  }

  public Object next() {
    byte[] bytes = new byte[layout.size];
    int count = 0;
    do {
      put(bytes, count, (InternalRow) given.next());
      count++;
    } while (count < layout.capacity && given.hasNext());
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET, count);
    rows += count;
    packed.update(0, bytes);
    return packed;
  }

  private void put(byte[] bytes, int place, InternalRow row) {
    int[] kinds = layout.kinds;
    for (int i = 0; i < kinds.length; i++) {
      if (row.isNullAt(i)) {
        long bits = Platform.BYTE_ARRAY_OFFSET + 8 * (1 + i);
        Platform.putLong(bytes, bits, Platform.getLong(bytes, bits) | (1L << place));
        continue;
      }
      long at = Platform.BYTE_ARRAY_OFFSET + layout.starts[i] + place * layout.widths[i];
      switch (kinds[i]) {
        case 1:
          Platform.putBoolean(bytes, at, row.getBoolean(i));
          break;
        case 2:
          Platform.putByte(bytes, at, row.getByte(i));
          break;
        case 3:
          Platform.putShort(bytes, at, row.getShort(i));
          break;
        case 4:
          Platform.putInt(bytes, at, row.getInt(i));
          break;
        case 5:
          Platform.putFloat(bytes, at, row.getFloat(i));
          break;
        case 6:
          Platform.putDouble(bytes, at, row.getDouble(i));
          break;
        default:
          Platform.putLong(bytes, at, row.getLong(i));
      }
    }
  }
}
