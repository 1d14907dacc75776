package frazil.spark;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A comparison of a coordinate with literals, in the words of the option <code>sel</code>: ge, gt,
 * le, lt and in. For coordinates that are too long to be evaluated value by value.
 */
final class Bounds {
  private Bounds() {}

  /** Null if an expression is no such comparison. */
  static Map of(Expression expression) {
    if (expression instanceof In) {
      return among((In) expression);
    }
    if (!(expression instanceof BinaryComparison)) {
      return null;
    }
    Expression left = (Expression) ((BinaryComparison) expression).left();
    Expression right = (Expression) ((BinaryComparison) expression).right();
    boolean flipped = right instanceof AttributeReference;
    Expression column = flipped ? right : left;
    Object value = written(flipped ? left : right);
    if (!(column instanceof AttributeReference) || value == null) {
      return null;
    }
    String word = word(expression, flipped);
    List one = new ArrayList();
    one.add(value);
    return word == null ? null : bound(word, "in".equals(word) ? (Object) one : value);
  }

  private static Map among(In in) {
    List values = new ArrayList();
    for (Object each : CollectionConverters.asJava(in.list())) {
      values.add(written((Expression) each));
    }
    boolean known = in.value() instanceof AttributeReference && !values.contains(null);
    return known ? bound("in", values) : null;
  }

  private static Map bound(String word, Object value) {
    Map found = new HashMap();
    found.put(word, value);
    return found;
  }

  private static String word(Expression comparison, boolean flipped) {
    if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) {
      return "in";
    } else if (comparison instanceof GreaterThan) {
      return flipped ? "lt" : "gt";
    } else if (comparison instanceof GreaterThanOrEqual) {
      return flipped ? "le" : "ge";
    } else if (comparison instanceof LessThan) {
      return flipped ? "gt" : "lt";
    } else if (comparison instanceof LessThanOrEqual) {
      return flipped ? "ge" : "le";
    }
    return null;
  }

  /** A literal as JSON has it, null if it cannot be written. */
  private static Object written(Expression expression) {
    if (!(expression instanceof Literal)) {
      return null;
    }
    Object value = ((Literal) expression).value();
    if (((Literal) expression).dataType() instanceof TimestampType && value != null) {
      long micros = ((Long) value).longValue();
      long seconds = Math.floorDiv(micros, 1000000L);
      return Instant.ofEpochSecond(seconds, 1000L * (micros - 1000000L * seconds)).toString();
    } else if (value instanceof Double || value instanceof Float) {
      double number = ((Number) value).doubleValue();
      return Double.isNaN(number) || Double.isInfinite(number) ? null : value;
    } else if (value instanceof Number) {
      return value;
    } else if (value instanceof Decimal) {
      return ((Decimal) value).toJavaBigDecimal();
    } else if (value instanceof UTF8String) {
      return value.toString();
    }
    return null;
  }
}
