package frazil.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DayOfMonth;
import org.apache.spark.sql.catalyst.expressions.DayOfYear;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Hour;
import org.apache.spark.sql.catalyst.expressions.Minute;
import org.apache.spark.sql.catalyst.expressions.Month;
import org.apache.spark.sql.catalyst.expressions.Quarter;
import org.apache.spark.sql.catalyst.expressions.Second;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.TruncDate;
import org.apache.spark.sql.catalyst.expressions.V2ExpressionUtils;
import org.apache.spark.sql.catalyst.expressions.WeekDay;
import org.apache.spark.sql.catalyst.expressions.WeekOfYear;
import org.apache.spark.sql.catalyst.expressions.Year;
import org.apache.spark.sql.catalyst.expressions.YearOfWeek;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Extract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;

/**
 * An expression over one dimension, such as <code>year(time)</code>, with its value at each
 * position: Spark's own evaluation of it.
 */
final class Derived {
  private static final String PART = "frazil part ";
  /** Expressions with more values are left to Spark: all of them travel to every task. */
  private static final int MOST_VALUES = 1 << 16;

  final Dimension dimension;
  final DataType type;
  private final String code;
  private final List distinct = new ArrayList();
  private final int[] codes;

  private Derived(Dimension dimension, DataType type, String code, int size) {
    this.dimension = dimension;
    this.type = type;
    this.code = code;
    this.codes = new int[size];
  }

  /** Null for what cannot be translated with certainty, or fails at any position. */
  static Derived of(Expression asked, Dimension dimension, String zone) {
    boolean sameZone = SQLConf.get().sessionLocalTimeZone().equals(zone);
    boolean hasZone = dimension.type() instanceof TimestampType;
    if (!dimension.hasValues() || (hasZone && !sameZone)) {
      return null; // these expressions do not tell in which time zone they were analysed
    }
    try {
      org.apache.spark.sql.catalyst.expressions.Expression bound = translate(asked, dimension);
      if (bound == null || !bound.deterministic() || !bound.resolved() || hasDecimals(bound)) {
        return null;
      }
      String code = code(bound.dataType());
      return code == null ? null : evaluate(bound, dimension, code);
    } catch (RuntimeException error) {
      return null; // Spark will meet it, if the row is really asked for
    }
  }

  /** Positions where a condition holds, and where it fails; null for what {@link #of} refuses. */
  static Ranges[] positions(Expression condition, Dimension dimension, String zone) {
    Derived found = of(condition, dimension, zone);
    if (found == null || !(found.type instanceof BooleanType)) {
      return null;
    }
    Ranges.Builder holds = new Ranges.Builder();
    Ranges.Builder fails = new Ranges.Builder();
    for (int i = 0; i < found.codes.length; i++) {
      Object value = found.distinct.get(found.codes[i]);
      if (value != null) {
        (((Boolean) value).booleanValue() ? holds : fails).add(i, i + 1);
      }
    }
    return new Ranges[] {holds.build(), fails.build()};
  }

  private static Derived evaluate(
      org.apache.spark.sql.catalyst.expressions.Expression bound, Dimension on, String code) {
    Object[] at = on.values();
    Derived found = new Derived(on, bound.dataType(), code, at.length);
    Map seen = new HashMap();
    Object[] cell = new Object[1];
    GenericInternalRow row = new GenericInternalRow(cell);
    for (int i = 0; i < at.length; i++) {
      cell[0] = at[i];
      Object value = bound.eval(row);
      Integer known = (Integer) seen.get(value);
      if (known == null) {
        known = Integer.valueOf(found.distinct.size());
        seen.put(value, known);
        found.distinct.add(value);
        if (found.count() > MOST_VALUES) {
          return null;
        }
      }
      found.codes[i] = known.intValue();
    }
    return found;
  }

  /** Number of distinct values. */
  int count() {
    return distinct.size();
  }

  List distinct() {
    return distinct;
  }

  /** For the Python side: the distinct values, and the index among them for each position. */
  Map told() {
    Map told = new HashMap();
    told.put("dimension", dimension.name());
    told.put("type", code);
    told.put("values", packValues());
    byte[] nulls = new byte[count()];
    for (int i = 0; i < nulls.length; i++) {
      nulls[i] = (byte) (distinct.get(i) == null ? 1 : 0);
    }
    told.put("null", deflate(nulls));
    ByteBuffer buffer = ByteBuffer.allocate(4 * codes.length).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < codes.length; i++) {
      buffer.putInt(codes[i]);
    }
    told.put("codes", deflate(buffer.array()));
    return told;
  }

  private Object packValues() {
    if ("text".equals(code)) {
      List texts = new ArrayList();
      for (Object each : distinct) {
        texts.add(each == null ? null : each.toString());
      }
      return texts;
    }
    ByteBuffer buffer = ByteBuffer.allocate(8 * count()).order(ByteOrder.LITTLE_ENDIAN);
    for (Object each : distinct) {
      boolean real = "f4".equals(code) || "f8".equals(code);
      if (each instanceof Boolean) {
        buffer.putLong(((Boolean) each).booleanValue() ? 1 : 0);
      } else if (real) {
        buffer.putDouble(each == null ? 0 : ((Number) each).doubleValue());
      } else {
        buffer.putLong(each == null ? 0 : ((Number) each).longValue());
      }
    }
    return deflate(buffer.array());
  }

  /** How values of a type travel, null if they do not. */
  static String code(DataType type) {
    if (type instanceof LongType || type instanceof TimestampType) {
      return "i8";
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return "i4";
    } else if (type instanceof ShortType) {
      return "i2";
    } else if (type instanceof ByteType) {
      return "i1";
    } else if (type instanceof DoubleType) {
      return "f8";
    } else if (type instanceof FloatType) {
      return "f4";
    } else if (type instanceof BooleanType) {
      return "b1";
    }
    return type instanceof StringType ? "text" : null;
  }

  private static boolean hasDecimals(org.apache.spark.sql.catalyst.expressions.Expression tree) {
    if (tree.dataType() instanceof DecimalType) {
      return true;
    }
    scala.collection.Iterator children = tree.children().iterator();
    while (children.hasNext()) {
      if (hasDecimals((org.apache.spark.sql.catalyst.expressions.Expression) children.next())) {
        return true;
      }
    }
    return false;
  }

  // Spark translates most of its public expressions back; parts of dates are translated here. In
  // between they are references with names of our own.

  private static org.apache.spark.sql.catalyst.expressions.Expression translate(
      Expression asked, Dimension dimension) {
    List parts = new ArrayList();
    Expression simple = withoutParts(asked, dimension, parts);
    if (simple == null) {
      return null;
    }
    Option found = V2ExpressionUtils.toCatalyst(simple);
    if (found.isEmpty()) {
      return null;
    }
    org.apache.spark.sql.catalyst.expressions.Expression tree =
        (org.apache.spark.sql.catalyst.expressions.Expression) found.get();
    return (org.apache.spark.sql.catalyst.expressions.Expression)
        tree.transformUp(new Binding(dimension, parts));
  }

  private static Expression withoutParts(Expression asked, Dimension on, List parts) {
    if (asked instanceof Extract) {
      Extract extract = (Extract) asked;
      org.apache.spark.sql.catalyst.expressions.Expression source =
          translate(extract.source(), on);
      return source == null ? null : extracted(extract.field(), source, parts);
    }
    Expression[] children = asked.children();
    Expression[] simple = new Expression[children.length];
    boolean same = true;
    for (int i = 0; i < children.length; i++) {
      simple[i] = withoutParts(children[i], on, parts);
      if (simple[i] == null) {
        return null;
      }
      same = same && simple[i] == children[i];
    }
    if (asked instanceof GeneralScalarExpression) {
      String name = ((GeneralScalarExpression) asked).name();
      if ("TRUNC".equals(name) && children.length == 2) {
        org.apache.spark.sql.catalyst.expressions.Expression date = translate(children[0], on);
        org.apache.spark.sql.catalyst.expressions.Expression unit = translate(children[1], on);
        return date == null || unit == null ? null : part(new TruncDate(date, unit), parts);
      }
      return same ? asked : new GeneralScalarExpression(name, simple);
    } else if (asked instanceof Cast) {
      return same ? asked : new Cast(simple[0], ((Cast) asked).dataType());
    }
    return same ? asked : null;
  }

  private static Expression extracted(
      String field, org.apache.spark.sql.catalyst.expressions.Expression from, List parts) {
    Option none = Option.empty();
    if ("YEAR".equals(field)) {
      return part(new Year(from), parts);
    } else if ("MONTH".equals(field)) {
      return part(new Month(from), parts);
    } else if ("DAY".equals(field)) {
      return part(new DayOfMonth(from), parts);
    } else if ("HOUR".equals(field)) {
      return part(new Hour(from, none), parts);
    } else if ("MINUTE".equals(field)) {
      return part(new Minute(from, none), parts);
    } else if ("SECOND".equals(field)) {
      return part(new Second(from, none), parts);
    } else if ("QUARTER".equals(field)) {
      return part(new Quarter(from), parts);
    } else if ("DAY_OF_YEAR".equals(field)) {
      return part(new DayOfYear(from), parts);
    } else if ("WEEK".equals(field)) {
      return part(new WeekOfYear(from), parts);
    } else if ("YEAR_OF_WEEK".equals(field)) {
      return part(new YearOfWeek(from), parts);
    } else if ("DAY_OF_WEEK".equals(field)) { // from Monday, 1; weekday counts from Monday, 0
      Expression one = Expressions.literal(Integer.valueOf(1));
      Expression[] added = new Expression[] {part(new WeekDay(from), parts), one};
      return new GeneralScalarExpression("+", added);
    }
    return null;
  }

  private static Expression part(
      org.apache.spark.sql.catalyst.expressions.Expression translated, List parts) {
    parts.add(translated);
    return Expressions.column("`" + PART + (parts.size() - 1) + "`");
  }

  /** Puts the value of the coordinate, parts, and the time zone where they belong. */
  private static final class Binding extends AbstractPartialFunction {
    private final Dimension dimension;
    private final List parts;

    Binding(Dimension dimension, List parts) {
      this.dimension = dimension;
      this.parts = parts;
    }

    private Object replace(Object each) {
      if (each instanceof UnresolvedAttribute) {
        String name = (String) ((UnresolvedAttribute) each).nameParts().head();
        return name.startsWith(PART)
            ? parts.get(Integer.parseInt(name.substring(PART.length())))
            : new BoundReference(0, dimension.type(), true);
      }
      return each;
    }

    public boolean isDefinedAt(Object each) {
      return each instanceof UnresolvedAttribute || needsZone(each);
    }

    public Object applyOrElse(Object each, scala.Function1 other) {
      if (!isDefinedAt(each)) {
        return other.apply(each);
      }
      Object found = replace(each);
      return needsZone(found)
          ? ((TimeZoneAwareExpression) found).withTimeZone(SQLConf.get().sessionLocalTimeZone())
          : found;
    }

    private static boolean needsZone(Object each) {
      return each instanceof TimeZoneAwareExpression
          && ((TimeZoneAwareExpression) each).timeZoneId().isEmpty();
    }
  }

  static String deflate(byte[] bytes) {
    Deflater deflater = new Deflater(1);
    deflater.setInput(bytes);
    deflater.finish();
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    byte[] buffer = new byte[1 << 16];
    while (!deflater.finished()) {
      out.write(buffer, 0, deflater.deflate(buffer));
    }
    deflater.end();
    return Base64.getEncoder().encodeToString(out.toByteArray());
  }
}
