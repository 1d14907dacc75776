package frazil.spark;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The function of a coordinate's value that numbers the tasks along its dimension.
 *
 * <p>Tables whose coordinates are cut at the same values have the same function, whatever else they
 * hold: then Spark joins them along all dimensions task by task, without a shuffle.
 */
final class ChunkNumber implements ScalarFunction, UnboundFunction, java.io.Serializable {
  private static final int MOST_KEPT = 1024;
  private static final Map KNOWN =
      Collections.synchronizedMap(
          new LinkedHashMap() {
            protected boolean removeEldestEntry(Map.Entry eldest) {
              return size() > MOST_KEPT;
            }
          });

  private final DataType type;
  private final Object[] cuts; // the first value of each task but the first
  private final boolean descending;
  private final String name;

  private ChunkNumber(DataType type, Object[] cuts, boolean descending) {
    this.type = type;
    this.cuts = cuts;
    this.descending = descending;
    this.name = "chunk_" + digest(type, cuts, descending);
  }

  /** The function of these cuts; a catalog finds it by its name. */
  static ChunkNumber of(DataType type, Object[] cuts, boolean descending) {
    ChunkNumber found = new ChunkNumber(type, cuts, descending);
    KNOWN.put(found.name, found);
    return found;
  }

  /** Null if there is no function of this name. */
  static ChunkNumber named(String name) {
    return (ChunkNumber) KNOWN.get(name);
  }

  private static String digest(DataType type, Object[] cuts, boolean descending) {
    StringBuilder text = new StringBuilder(type.json()).append(descending);
    for (Object cut : cuts) {
      String written = cut.toString();
      text.append('\n').append(written.length()).append(':').append(written);
    }
    try {
      MessageDigest sha = MessageDigest.getInstance("SHA-256");
      byte[] bytes = sha.digest(text.toString().getBytes(StandardCharsets.UTF_8));
      StringBuilder hex = new StringBuilder();
      for (int i = 0; i < 16; i++) {
        hex.append(Integer.toHexString((bytes[i] & 0xff) | 0x100).substring(1));
      }
      return hex.toString();
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }

  public String name() {
    return name;
  }

  public String canonicalName() {
    return "frazil.spark." + name;
  }

  public String description() {
    return "number of the task that reads a value of a coordinate";
  }

  public BoundFunction bind(StructType input) {
    if (input.length() != 1 || !input.fields()[0].dataType().equals(type)) {
      throw new UnsupportedOperationException(name + " takes one value of " + type.sql());
    }
    return this;
  }

  public DataType[] inputTypes() {
    return new DataType[] {type};
  }

  public DataType resultType() {
    return DataTypes.IntegerType;
  }

  public Object produceResult(InternalRow row) {
    if (row.isNullAt(0)) {
      return null;
    }
    Object value = row.get(0, type);
    int number = 0;
    for (Object cut : cuts) {
      int step = TypeUtils.getInterpretedOrdering(type).compare(value, cut);
      number += (descending ? step <= 0 : step >= 0) ? 1 : 0;
    }
    return Integer.valueOf(number);
  }
}
