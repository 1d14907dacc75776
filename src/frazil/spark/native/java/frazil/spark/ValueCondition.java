package frazil.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.BooleanType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A condition on the values of variables, in words that the Python side evaluates as Spark does.
 *
 * <p>These are comparisons of numbers with literals, IN, IS NULL, booleans, and AND, OR and NOT of
 * such. table/value_condition.py reads what is told here.
 */
final class ValueCondition {
  private final Description table;
  private final Set variables;

  private ValueCondition(Description table, Set variables) {
    this.table = table;
    this.variables = variables;
  }

  /** Null if Spark has to evaluate it. Adds the variables that it reads to a set. */
  static List of(Expression condition, Description table, Set variables) {
    return condition.deterministic() ? new ValueCondition(table, variables).told(condition) : null;
  }

  private List told(Expression asked) {
    if (asked instanceof And) {
      return joined("and", told(((And) asked).left()), told(((And) asked).right()));
    } else if (asked instanceof Or) {
      return joined("or", told(((Or) asked).left()), told(((Or) asked).right()));
    } else if (asked instanceof Not) {
      List inner = told(((Not) asked).child());
      return inner == null ? null : Arrays.asList(new Object[] {"not", inner});
    } else if (asked instanceof IsNull) {
      return ofColumn("null", ((IsNull) asked).child());
    } else if (asked instanceof IsNotNull) {
      return ofColumn("present", ((IsNotNull) asked).child());
    } else if (asked instanceof Attribute && asked.dataType() instanceof BooleanType) {
      return ofColumn("true", asked);
    } else if (asked instanceof In) {
      return among(((In) asked).value(), CollectionConverters.asJava(((In) asked).list()));
    } else if (asked instanceof InSet) {
      List values = new ArrayList();
      for (Object each : CollectionConverters.asJava(((InSet) asked).hset())) {
        values.add(new Literal(each, ((InSet) asked).child().dataType()));
      }
      return among(((InSet) asked).child(), values);
    }
    return asked instanceof BinaryComparison ? compared((BinaryComparison) asked) : null;
  }

  private static List joined(String word, List left, List right) {
    return left == null || right == null ? null : Arrays.asList(new Object[] {word, left, right});
  }

  private List ofColumn(String word, Expression asked) {
    String name = variable(asked);
    return name == null ? null : Arrays.asList(new Object[] {word, name});
  }

  private List compared(BinaryComparison asked) {
    Expression left = (Expression) asked.left();
    Expression right = (Expression) asked.right();
    boolean turned = left instanceof Literal;
    String word = word(asked, turned);
    Map operand = operand(turned ? right : left);
    String number = number(turned ? left : right);
    return word == null || operand == null || number == null
        ? null
        : Arrays.asList(new Object[] {word, operand, number});
  }

  private static String word(BinaryComparison asked, boolean turned) {
    if (asked instanceof EqualTo) {
      return "=";
    } else if (asked instanceof LessThan) {
      return turned ? ">" : "<";
    } else if (asked instanceof LessThanOrEqual) {
      return turned ? ">=" : "<=";
    } else if (asked instanceof GreaterThan) {
      return turned ? "<" : ">";
    }
    return asked instanceof GreaterThanOrEqual ? turned ? "<=" : ">=" : null;
  }

  private List among(Expression asked, List literals) {
    Map operand = operand(asked);
    List numbers = new ArrayList();
    for (Object each : literals) {
      String number = number((Expression) each);
      if (number == null) {
        return null;
      }
      numbers.add(number);
    }
    return operand == null ? null : Arrays.asList(new Object[] {"in", operand, numbers});
  }

  /** A variable of numbers, perhaps cast to a wider type; null for all else. */
  private Map operand(Expression asked) {
    Expression inner = asked instanceof Cast ? ((Cast) asked).child() : asked;
    String name = variable(inner);
    int from = Aggregates.rank(inner.dataType());
    boolean widens = inner == asked || from < Aggregates.rank(asked.dataType());
    if (name == null || from < 0 || !widens) {
      return null;
    }
    Map told = new HashMap();
    told.put("column", name);
    told.put("type", Derived.code(asked.dataType()));
    return told;
  }

  /** Name of the variable that an expression is, null if it is another one. */
  private String variable(Expression asked) {
    String name = asked instanceof Attribute ? ((Attribute) asked).name() : null;
    boolean known = name != null && table.schema().getFieldIndex(name).isDefined();
    if (!known || table.dimension(name) >= 0) {
      return null;
    }
    variables.add(name);
    return name;
  }

  /** Text of a number; null for NULL, for NaN, which is equal to itself, and for all else. */
  private static String number(Expression asked) {
    Object value = asked instanceof Literal ? ((Literal) asked).value() : null;
    if (value == null || Aggregates.rank(asked.dataType()) < 0) {
      return null;
    } else if (value instanceof Float || value instanceof Double) {
      double exact = ((Number) value).doubleValue();
      return Double.isNaN(exact) ? null : Double.toString(exact);
    }
    return value.toString();
  }
}
