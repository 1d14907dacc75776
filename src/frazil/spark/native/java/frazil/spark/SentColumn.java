package frazil.spark;

import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * A column of one batch from Python, cut into columns of fewer rows.
 *
 * <p>Values are copied to the heap: Spark's runner fills the vectors of a batch again with the next,
 * and frees them after the last, while an operator may still have rows of an earlier one.
 */
final class SentColumn {
  private static final int BITS = 8; // of a byte

  private final ArrowColumnVector column;

  SentColumn(ArrowColumnVector column) {
    this.column = column;
  }

  /** Some rows. */
  WritableColumnVector part(int start, int rows) {
    WritableColumnVector part = new OnHeapColumnVector(rows, column.dataType());
    copy(column, start, rows, part);
    return part;
  }

  private static void copy(ArrowColumnVector from, int start, int rows, WritableColumnVector into) {
    DataType type = into.dataType();
    if (width(type) > 0) {
      copyNumbers((FieldVector) from.getValueVector(), start, rows, into);
    } else if (type instanceof StructType) {
      for (int i = 0; i < ((StructType) type).length(); i++) {
        copy((ArrowColumnVector) from.getChild(i), start, rows, into.getChild(i));
      }
    } else if (type instanceof ArrayType) {
      copyLists(from, start, rows, into);
    } else {
      copyValues(from, start, rows, into);
    }
    if (from.hasNull()) {
      copyNulls(from, start, rows, into);
    }
  }

  /** In bytes; 0 for what is no number. */
  private static int width(DataType type) {
    if (type instanceof DoubleType
        || type instanceof LongType
        || type instanceof TimestampType
        || type instanceof DayTimeIntervalType) {
      return 8;
    } else if (type instanceof FloatType || type instanceof IntegerType || type instanceof DateType) {
      return 4;
    } else if (type instanceof ShortType) {
      return 2;
    }
    return type instanceof ByteType ? 1 : 0;
  }

  private static void copyNumbers(
      FieldVector vector, int start, int rows, WritableColumnVector into) {
    DataType type = into.dataType();
    int width = width(type);
    byte[] values = new byte[rows * width];
    long address = vector.getDataBufferAddress() + (long) start * width;
    Platform.copyMemory(null, address, values, Platform.BYTE_ARRAY_OFFSET, values.length);
    if (type instanceof DoubleType) {
      into.putDoubles(0, rows, values, 0);
    } else if (type instanceof FloatType) {
      into.putFloats(0, rows, values, 0);
    } else if (width == 8) {
      into.putLongs(0, rows, values, 0);
    } else if (width == 4) {
      into.putInts(0, rows, values, 0);
    } else if (width == 2) {
      into.putShorts(0, rows, values, 0);
    } else {
      into.putBytes(0, rows, values, 0);
    }
  }

  private static void copyValues(
      ArrowColumnVector from, int start, int rows, WritableColumnVector into) {
    DataType type = into.dataType();
    for (int i = 0; i < rows; i++) {
      int row = start + i;
      if (from.isNullAt(row)) {
        continue;
      }
      if (type instanceof BooleanType) {
        into.putBoolean(i, from.getBoolean(row));
      } else if (type instanceof DecimalType) {
        DecimalType exact = (DecimalType) type;
        into.putDecimal(
            i, from.getDecimal(row, exact.precision(), exact.scale()), exact.precision());
      } else if (type instanceof BinaryType) {
        into.putByteArray(i, from.getBinary(row));
      } else {
        into.putByteArray(i, from.getUTF8String(row).getBytes());
      }
    }
  }

  private static void copyLists(
      ArrowColumnVector from, int start, int rows, WritableColumnVector into) {
    ListVector lists = (ListVector) from.getValueVector();
    int first = rows == 0 ? 0 : lists.getElementStartIndex(start);
    int count = rows == 0 ? 0 : lists.getElementEndIndex(start + rows - 1) - first;
    for (int i = 0; i < rows; i++) {
      int at = lists.getElementStartIndex(start + i);
      into.putArray(i, at - first, lists.getElementEndIndex(start + i) - at);
    }
    ArrowColumnVector elements = new ArrowColumnVector(lists.getDataVector());
    into.arrayData().reserve(count);
    copy(elements, first, count, into.arrayData());
  }

  private static void copyNulls(
      ArrowColumnVector from, int start, int rows, WritableColumnVector into) {
    if (start % BITS > 0) {
      for (int i = 0; i < rows; i++) {
        if (from.isNullAt(start + i)) {
          into.putNull(i);
        }
      }
      return;
    }
    byte[] valid = new byte[(rows + BITS - 1) / BITS];
    long address =
        ((FieldVector) from.getValueVector()).getValidityBufferAddress() + start / BITS;
    Platform.copyMemory(null, address, valid, Platform.BYTE_ARRAY_OFFSET, valid.length);
    for (int i = 0; i < valid.length; i++) {
      int last = Math.min(BITS, rows - BITS * i);
      for (int bit = 0; valid[i] != -1 && bit < last; bit++) {
        if ((valid[i] >> bit & 1) == 0) {
          into.putNull(BITS * i + bit);
        }
      }
    }
  }
}
