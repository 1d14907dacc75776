package frazil.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;

/**
 * A dimension of a table, with the values of its coordinate as Spark holds them in its rows.
 *
 * <p>A dimension with more values than {@link #MOST_VALUES} has none here: the driver stays small.
 */
final class Dimension {
  static final long MOST_VALUES = 1L << 22;

  private final Description table;
  private final Map told;
  private final String name;
  private final long size;
  private Object[] values;

  Dimension(Description table, Map told) {
    this.table = table;
    this.told = told;
    this.name = (String) told.get("name");
    this.size = ((Number) told.get("size")).longValue();
  }

  String name() {
    return name;
  }

  long size() {
    return size;
  }

  DataType type() {
    return table.schema().apply(name).dataType();
  }

  /** Positions that the options of the table select: all, or those of `sel` and `isel`. */
  Ranges selected() {
    List edges = (List) told.get("selected");
    return edges == null ? Ranges.of(0, size) : ranges(edges);
  }

  private static Ranges ranges(List edges) {
    Ranges.Builder found = new Ranges.Builder();
    for (int i = 0; i < edges.size(); i += 2) {
      found.add(((Number) edges.get(i)).longValue(), ((Number) edges.get(i + 1)).longValue());
    }
    return found.build();
  }

  /** Whether the coordinate can be looked at here. */
  boolean hasValues() {
    return size <= MOST_VALUES && told.get("type") != null;
  }

  /** The value at each position, null for NULL; as in Spark's internal rows. */
  Object[] values() {
    if (values == null) {
      Object[] found = new Object[(int) size];
      Map packed = (Map) told.get("values");
      for (int known = 0; known < found.length; packed = null) {
        Object[] part = unpack((String) told.get("type"), packed == null ? ask(known) : packed);
        System.arraycopy(part, 0, found, known, part.length);
        known += part.length;
      }
      values = found;
    }
    return values;
  }

  /** Asks for values from a position on: as many as an answer holds. */
  private Map ask(int start) {
    Map question = new HashMap();
    question.put("coordinate", name);
    question.put("start", Integer.valueOf(start));
    return (Map) table.ask(question).get("values");
  }

  /**
   * Positions where a condition on this dimension alone is true, and where it is false; elsewhere
   * it is NULL. Spark's own evaluation decides. Null if that fails at any position.
   */
  Ranges[] evaluate(Expression condition) {
    Object[] at = values();
    Expression bound = bind(condition);
    Ranges.Builder holds = new Ranges.Builder();
    Ranges.Builder fails = new Ranges.Builder();
    Object[] cell = new Object[1];
    GenericInternalRow row = new GenericInternalRow(cell);
    try {
      for (int i = 0; i < at.length; i++) {
        cell[0] = at[i];
        Object result = bound.eval(row);
        if (result != null) {
          (((Boolean) result).booleanValue() ? holds : fails).add(i, i + 1);
        }
      }
    } catch (Exception error) { // also what is thrown for a subquery or a function in Python
      return null;
    }
    return new Ranges[] {holds.build(), fails.build()};
  }

  /**
   * Positions where a comparison with literals may be true, of a dimension with too many values:
   * the Python side finds them. Null if it is no such comparison, or nothing is gained.
   */
  Ranges near(Expression comparison) {
    Map bounds = told.get("type") == null ? null : Bounds.of(comparison);
    if (bounds == null) {
      return null;
    }
    Map selection = new HashMap();
    selection.put(name, bounds);
    Map question = new HashMap();
    question.put("select", selection);
    List edges = (List) table.ask(question).get("positions");
    return edges == null ? null : ranges(edges);
  }

  /** Positions of the first values by an order, enough for that many rows, with their equals. */
  Ranges first(SortOrder order, Cells cells, int d, long rows) {
    long[] edges = cells.product(0)[d].edges();
    List positions = new ArrayList();
    for (int i = 0; i < edges.length; i += 2) {
      for (long at = edges[i]; at < edges[i + 1]; at++) {
        positions.add(Integer.valueOf((int) at));
      }
    }
    Comparator byValue = new ByValue(values(), type(), order);
    Collections.sort(positions, byValue);
    long each = cells.size() / positions.size();
    int taken = (int) Math.min(positions.size(), (rows + each - 1) / each);
    while (taken > 0
        && taken < positions.size()
        && byValue.compare(positions.get(taken - 1), positions.get(taken)) == 0) {
      taken++;
    }
    List chosen = new ArrayList(positions.subList(0, taken));
    Collections.sort(chosen);
    Ranges.Builder found = new Ranges.Builder();
    for (Object chosenAt : chosen) {
      int at = ((Integer) chosenAt).intValue();
      found.add(at, at + 1);
    }
    return found.build();
  }

  /** Positions whose value is one of a set of comparable values. */
  Ranges among(Set wanted) {
    Object[] at = values();
    Ranges.Builder found = new Ranges.Builder();
    for (int i = 0; i < at.length; i++) {
      if (at[i] != null && wanted.contains(comparable(at[i]))) {
        found.add(i, i + 1);
      }
    }
    return found.build();
  }

  /** A value that equals another exactly if Spark's `=` says so: -0.0 is 0.0, NaN is NaN. */
  static Object comparable(Object value) {
    if (value instanceof Double && ((Double) value).doubleValue() == 0) {
      return Double.valueOf(0);
    } else if (value instanceof Float && ((Float) value).floatValue() == 0) {
      return Float.valueOf(0);
    }
    return value;
  }

  /** Whether values need not be asked for. */
  boolean isAtHand() {
    return values != null || told.get("values") != null;
  }

  /** How values at some positions follow each other: null if neither up nor down. */
  Order order(Ranges positions) {
    if (!isAtHand()) {
      return null;
    }
    Comparator ordering = TypeUtils.getInterpretedOrdering(type());
    boolean up = true;
    boolean down = true;
    boolean strict = true;
    Object last = null;
    long[] edges = positions.edges();
    for (int i = 0; i < edges.length; i += 2) {
      for (long at = edges[i]; at < edges[i + 1]; at++) {
        Object value = values()[(int) at];
        if (value == null) {
          return null;
        }
        int step = last == null ? 0 : ordering.compare(last, value);
        up = up && step <= 0;
        down = down && step >= 0;
        strict = strict && (last == null || step != 0);
        last = value;
      }
    }
    return up || down ? new Order(!up, strict) : null;
  }

  static final class Order {
    final boolean descending;
    final boolean strict;

    Order(boolean descending, boolean strict) {
      this.descending = descending;
      this.strict = strict;
    }
  }

  /** The least and the greatest value at some positions, and how many there are. */
  Extent extent(Ranges positions) {
    Comparator ordering = TypeUtils.getInterpretedOrdering(type());
    Extent found = new Extent();
    Set distinct = new HashSet();
    long[] edges = positions.edges();
    for (int i = 0; i < edges.length; i += 2) {
      for (long at = edges[i]; at < edges[i + 1]; at++) {
        Object value = values()[(int) at];
        found.hasNull |= value == null;
        if (value == null) {
          continue;
        }
        distinct.add(comparable(value));
        if (found.least == null || ordering.compare(value, found.least) < 0) {
          found.least = value;
        }
        if (found.greatest == null || ordering.compare(value, found.greatest) > 0) {
          found.greatest = value;
        }
      }
    }
    found.distinct = distinct.size();
    return found;
  }

  static final class Extent {
    Object least;
    Object greatest;
    long distinct;
    boolean hasNull;
  }

  /** Orders positions by their values as Spark orders rows. */
  private static final class ByValue implements Comparator {
    private final Object[] values;
    private final Comparator ordering;
    private final int sign;
    private final int nullSign;

    ByValue(Object[] values, DataType type, SortOrder order) {
      this.values = values;
      this.ordering = TypeUtils.getInterpretedOrdering(type);
      this.sign = order.direction() == SortDirection.ASCENDING ? 1 : -1;
      this.nullSign = order.nullOrdering() == NullOrdering.NULLS_FIRST ? -1 : 1;
    }

    public int compare(Object one, Object other) {
      Object a = values[((Integer) one).intValue()];
      Object b = values[((Integer) other).intValue()];
      if (a == null || b == null) {
        return a == b ? 0 : (a == null ? nullSign : -nullSign);
      }
      return sign * ordering.compare(a, b);
    }
  }

  private Expression bind(Expression condition) {
    final Expression bound = new BoundReference(0, type(), true);
    PartialFunction rule =
        new AbstractPartialFunction() {
          public boolean isDefinedAt(Object each) {
            return each instanceof AttributeReference;
          }

          public Object applyOrElse(Object each, scala.Function1 other) {
            return each instanceof AttributeReference ? bound : other.apply(each);
          }
        };
    return (Expression) condition.transform(rule);
  }

  private static Object[] unpack(String type, Map packed) {
    boolean[] present = new boolean[((Number) packed.get("count")).intValue()];
    byte[] nulls = packed.get("null") == null ? null : inflate((String) packed.get("null"));
    Object[] values = new Object[present.length];
    byte[] bytes = inflate((String) packed.get("data"));
    if ("text".equals(type) || "decimal".equals(type)) {
      unpackTexts(type, bytes, values);
    } else {
      ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < values.length; i++) {
        values[i] = next(type, buffer);
      }
    }
    for (int i = 0; nulls != null && i < values.length; i++) {
      if (nulls[i] != 0) {
        values[i] = null;
      }
    }
    return values;
  }

  private static Object next(String type, ByteBuffer buffer) {
    if ("i8".equals(type)) {
      return Long.valueOf(buffer.getLong());
    } else if ("i4".equals(type)) {
      return Integer.valueOf(buffer.getInt());
    } else if ("i2".equals(type)) {
      return Short.valueOf(buffer.getShort());
    } else if ("i1".equals(type)) {
      return Byte.valueOf(buffer.get());
    } else if ("f8".equals(type)) {
      return Double.valueOf(buffer.getDouble());
    } else if ("f4".equals(type)) {
      return Float.valueOf(buffer.getFloat());
    } else if ("b1".equals(type)) {
      return Boolean.valueOf(buffer.get() != 0);
    }
    throw new IllegalStateException("a coordinate of type " + type);
  }

  private static void unpackTexts(String type, byte[] bytes, Object[] values) {
    List texts;
    try {
      texts = (List) new ObjectMapper().readValue(bytes, List.class);
    } catch (IOException error) {
      throw new IllegalStateException("a coordinate that is not JSON", error);
    }
    for (int i = 0; i < values.length; i++) {
      String text = (String) texts.get(i);
      if (text == null) {
        values[i] = null;
      } else if ("text".equals(type)) {
        values[i] = UTF8String.fromString(text);
      } else {
        values[i] = Decimal.apply(new java.math.BigDecimal(text), 20, 0);
      }
    }
  }

  private static byte[] inflate(String text) {
    Inflater inflater = new Inflater();
    inflater.setInput(Base64.getDecoder().decode(text));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    byte[] buffer = new byte[1 << 16];
    try {
      while (!inflater.finished()) {
        out.write(buffer, 0, inflater.inflate(buffer));
      }
    } catch (DataFormatException error) {
      throw new IllegalStateException("a coordinate that cannot be unpacked", error);
    } finally {
      inflater.end();
    }
    return out.toByteArray();
  }
}
