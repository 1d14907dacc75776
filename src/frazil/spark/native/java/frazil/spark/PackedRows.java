package frazil.spark;

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

  /** Spark makes batches of ten thousand values, and these should not be large. */
  private static final int MOST_BYTES = 4096;

  private static final int MOST_ROWS = 64; // as many as a number has bits

  private final Iterator given;
  private final int[] kinds;
  private final int[] widths;
  private final int[] starts;
  private final int capacity; // rows
  private final int size; // bytes
  private final GenericInternalRow packed = new GenericInternalRow(1);
  private long rows;

  PackedRows(Iterator given, StructType schema) {
    this.given = given;
    StructField[] fields = schema.fields();
    capacity = capacity(schema);
    kinds = new int[fields.length];
    widths = new int[fields.length];
    starts = new int[fields.length];
    int at = 8 * (1 + fields.length);
    for (int i = 0; i < fields.length; i++) {
      kinds[i] = kind(fields[i].dataType());
      widths[i] = width(kinds[i]);
      starts[i] = at;
      at += capacity * widths[i];
    }
    size = at;
  }

  /** Rows in one value; 0 if there is a column whose values are of no fixed size, or none at all. */
  static int capacity(StructType schema) {
    int row = 0;
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      int kind = kind(fields[i].dataType());
      if (kind == 0) {
        return 0;
      }
      row += width(kind);
    }
    int capacity = row == 0 ? 0 : MOST_ROWS;
    while (capacity > 1 && capacity * row > MOST_BYTES) {
      capacity /= 2;
    }
    return capacity;
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
    byte[] bytes = new byte[size];
    int count = 0;
    do {
      put(bytes, count, (InternalRow) given.next());
      count++;
    } while (count < capacity && given.hasNext());
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET, count);
    rows += count;
    packed.update(0, bytes);
    return packed;
  }

  private void put(byte[] bytes, int place, InternalRow row) {
    for (int i = 0; i < kinds.length; i++) {
      if (row.isNullAt(i)) {
        long bits = Platform.BYTE_ARRAY_OFFSET + 8 * (1 + i);
        Platform.putLong(bytes, bits, Platform.getLong(bytes, bits) | (1L << place));
        continue;
      }
      long at = Platform.BYTE_ARRAY_OFFSET + starts[i] + place * widths[i];
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
