package frazil.spark;

import java.io.Serializable;
import java.lang.reflect.Array;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Values of a coordinate at positions that follow each other, on executors.
 *
 * <p>They are held as Spark's columns hold them: an array of primitives, or the bytes of each text
 * or decimal.
 */
final class Coordinate implements Serializable {
  private final DataType type;
  private final long first; // position of the first value
  private final Object values; // long[], int[], short[], byte[], double[], float[], boolean[], byte[][]
  private final boolean[] nulls; // null if no value is NULL

  private Coordinate(DataType type, long first, Object values, boolean[] nulls) {
    this.type = type;
    this.first = first;
    this.values = values;
    this.nulls = nulls;
  }

  /** The values of a dimension from one position to another. */
  static Coordinate of(Dimension dimension, long start, long stop) {
    Object[] all = dimension.values();
    int size = (int) (stop - start);
    Object values = Array.newInstance(element(all, start, stop), size);
    boolean[] nulls = null;
    for (int i = 0; i < size; i++) {
      Object value = all[(int) start + i];
      if (value != null) {
        Array.set(values, i, stored(value));
      } else {
        nulls = nulls == null ? new boolean[size] : nulls;
        nulls[i] = true;
      }
    }
    return new Coordinate(dimension.type(), start, values, nulls);
  }

  /** The type of the array's elements, by the first value; of NULLs alone it does not matter. */
  private static Class element(Object[] all, long start, long stop) {
    for (long at = start; at < stop; at++) {
      Object value = all[(int) at];
      if (value instanceof Long) {
        return Long.TYPE;
      } else if (value instanceof Integer) {
        return Integer.TYPE;
      } else if (value instanceof Short) {
        return Short.TYPE;
      } else if (value instanceof Byte) {
        return Byte.TYPE;
      } else if (value instanceof Double) {
        return Double.TYPE;
      } else if (value instanceof Float) {
        return Float.TYPE;
      } else if (value instanceof Boolean) {
        return Boolean.TYPE;
      } else if (value != null) {
        return byte[].class;
      }
    }
    return byte[].class;
  }

  private static Object stored(Object value) {
    if (value instanceof UTF8String) {
      return ((UTF8String) value).getBytes();
    } else if (value instanceof Decimal) {
      return ((Decimal) value).toJavaBigDecimal().unscaledValue().toByteArray();
    }
    return value;
  }

  DataType type() {
    return type;
  }

  /** The values at some positions, which then follow each other. */
  Coordinate at(Ranges positions) {
    int size = (int) positions.size();
    Object taken = Array.newInstance(values.getClass().getComponentType(), size);
    boolean[] missing = nulls == null ? null : new boolean[size];
    long[] edges = positions.edges();
    int done = 0;
    for (int i = 0; i < edges.length; i += 2) {
      int from = (int) (edges[i] - first);
      int count = (int) (edges[i + 1] - edges[i]);
      System.arraycopy(values, from, taken, done, count);
      if (nulls != null) {
        System.arraycopy(nulls, from, missing, done, count);
      }
      done += count;
    }
    return new Coordinate(type, 0, taken, missing);
  }

  /** Writes one value into some rows of a new column. */
  void repeat(int at, WritableColumnVector into, int row, int count) {
    if (nulls != null && nulls[at]) {
      into.putNulls(row, count);
    } else if (values instanceof long[]) {
      into.putLongs(row, count, ((long[]) values)[at]);
    } else if (values instanceof int[]) {
      into.putInts(row, count, ((int[]) values)[at]);
    } else if (values instanceof short[]) {
      into.putShorts(row, count, ((short[]) values)[at]);
    } else if (values instanceof byte[]) {
      into.putBytes(row, count, ((byte[]) values)[at]);
    } else if (values instanceof double[]) {
      into.putDoubles(row, count, ((double[]) values)[at]);
    } else if (values instanceof float[]) {
      into.putFloats(row, count, ((float[]) values)[at]);
    } else if (values instanceof boolean[]) {
      into.putBooleans(row, count, ((boolean[]) values)[at]);
    } else {
      byte[] bytes = ((byte[][]) values)[at];
      int from = into.arrayData().appendBytes(bytes.length, bytes, 0);
      for (int i = 0; i < count; i++) {
        into.putArray(row + i, from, bytes.length);
      }
    }
  }

  /** Writes values that follow each other into as many rows of a new column. */
  void copy(int at, WritableColumnVector into, int row, int count) {
    if (values instanceof long[]) {
      into.putLongs(row, count, (long[]) values, at);
    } else if (values instanceof int[]) {
      into.putInts(row, count, (int[]) values, at);
    } else if (values instanceof short[]) {
      into.putShorts(row, count, (short[]) values, at);
    } else if (values instanceof byte[]) {
      into.putBytes(row, count, (byte[]) values, at);
    } else if (values instanceof double[]) {
      into.putDoubles(row, count, (double[]) values, at);
    } else if (values instanceof float[]) {
      into.putFloats(row, count, (float[]) values, at);
    } else {
      for (int i = 0; i < count; i++) {
        repeat(at + i, into, row + i, 1);
      }
      return;
    }
    for (int i = 0; nulls != null && i < count; i++) {
      if (nulls[at + i]) {
        into.putNull(row + i);
      }
    }
  }
}
