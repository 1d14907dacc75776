package frazil.spark;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * A column of one batch from Python, cut into columns of fewer rows, each with memory of its own:
 * Spark's runner fills the vectors of a batch again with the next.
 *
 * <p>Numbers are copied to the heap, where Spark reads them without Arrow's checks. Other values
 * stay in Arrow's memory, which the last owner has to release.
 */
final class SentColumn {
  private static final int BITS = 8; // of a byte

  private final FieldVector vector;
  private final DataType type;
  private final int width; // in bytes, 0 for what stays in Arrow's memory
  private final boolean hasNulls;

  SentColumn(ArrowColumnVector column) {
    vector = (FieldVector) column.getValueVector();
    type = column.dataType();
    width = width(type);
    hasNulls = width > 0 && vector.getNullCount() > 0;
  }

  private static int width(DataType type) {
    if (type instanceof DoubleType || type instanceof LongType || type instanceof TimestampType) {
      return 8;
    } else if (type instanceof FloatType || type instanceof IntegerType) {
      return 4;
    } else if (type instanceof ShortType) {
      return 2;
    }
    return type instanceof ByteType ? 1 : 0;
  }

  /** True if parts have to be closed. */
  boolean staysInArrow() {
    return width == 0;
  }

  /** Some rows; <code>start</code> is a multiple of 8. */
  ColumnVector part(int start, int rows, BufferAllocator memory) {
    if (width == 0) {
      TransferPair pair = vector.getTransferPair(memory);
      if (start == 0 && rows == vector.getValueCount()) {
        pair.transfer();
      } else {
        pair.splitAndTransfer(start, rows);
      }
      return new ArrowColumnVector((ValueVector) pair.getTo());
    }
    WritableColumnVector part = new OnHeapColumnVector(rows, type);
    byte[] values = new byte[rows * width];
    long address = vector.getDataBufferAddress() + (long) start * width;
    Platform.copyMemory(null, address, values, Platform.BYTE_ARRAY_OFFSET, values.length);
    if (type instanceof DoubleType) {
      part.putDoubles(0, rows, values, 0);
    } else if (type instanceof FloatType) {
      part.putFloats(0, rows, values, 0);
    } else if (width == 8) {
      part.putLongs(0, rows, values, 0);
    } else if (width == 4) {
      part.putInts(0, rows, values, 0);
    } else if (width == 2) {
      part.putShorts(0, rows, values, 0);
    } else {
      part.putBytes(0, rows, values, 0);
    }
    if (hasNulls) {
      putNulls(part, start, rows);
    }
    return part;
  }

  private void putNulls(WritableColumnVector part, int start, int rows) {
    byte[] valid = new byte[(rows + BITS - 1) / BITS];
    long address = vector.getValidityBufferAddress() + start / BITS;
    Platform.copyMemory(null, address, valid, Platform.BYTE_ARRAY_OFFSET, valid.length);
    for (int i = 0; i < valid.length; i++) {
      int last = Math.min(BITS, rows - BITS * i);
      for (int bit = 0; valid[i] != -1 && bit < last; bit++) {
        if ((valid[i] >> bit & 1) == 0) {
          part.putNull(BITS * i + bit);
        }
      }
    }
  }
}
