package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
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

/**
 * Aggregates, by groups of positions, that the Python side computes block by block as partial
 * results. Spark merges them with the functions it was asked for.
 */
final class Aggregates {
  /** Any sum of integers below this cannot overflow. */
  private static final double SAFE = 4e18;

  private final Description table;
  private final Cells cells;
  private final String text;
  private final List groups = new ArrayList();
  private final List values = new ArrayList();
  private final Set variables = new HashSet();
  private StructType schema = new StructType();
  private double rows = 1;
  private boolean ofCoordinates; // whether an aggregate is of values along a dimension

  private Aggregates(Description table, Cells cells, String text) {
    this.table = table;
    this.cells = cells;
    this.text = text;
  }

  /**
   * Null if any of it is left to Spark, over rows. If cells are <code>filtered</code> by their
   * values, so are aggregates of coordinates.
   */
  static Aggregates of(Aggregation asked, Description table, Cells cells, boolean filtered) {
    if (!table.hasCells()) {
      return null;
    }
    Aggregates found = new Aggregates(table, cells, describe(asked));
    Set whole = new HashSet();
    for (Expression group : asked.groupByExpressions()) {
      if (!found.group(group, whole)) {
        return null;
      }
    }
    if (!whole.isEmpty() && whole.size() == table.dimensions().length) {
      return null; // every row is a group
    }
    for (AggregateFunc function : asked.aggregateExpressions()) {
      if (!found.add(function)) {
        return null;
      }
    }
    return filtered && found.ofCoordinates ? null : found;
  }

  /**
   * Whether an average stays right as Spark writes it: the sum in the column's own type, divided by
   * the count. It does not where this sum may overflow, and that of rows, in DOUBLE, would not.
   */
  static boolean averagesAreSafe(Aggregation asked, Description table, Cells cells) {
    for (AggregateFunc function : asked.aggregateExpressions()) {
      if (function instanceof Avg) {
        Aggregates summed = new Aggregates(table, cells, "");
        Expression column = ((Avg) function).column();
        boolean unbounded = variable(column, table) != null && isLong(type(column, table));
        if (unbounded || !summed.add(new Sum(column, false))) {
          return false;
        }
      }
    }
    return true;
  }

  /** Columns of the partial results: groups, then aggregates. */
  StructType schema() {
    return schema;
  }

  boolean reads(String variable) {
    return variables.contains(variable);
  }

  /** Number of groups, at most. */
  long rows() {
    return (long) Math.min(rows, (double) Math.max(1, cells.size()));
  }

  Map told() {
    Map told = new HashMap();
    told.put("groups", groups);
    told.put("values", values);
    told.put("cores", Integer.valueOf(SparkContext.getOrCreate().defaultParallelism()));
    return told;
  }

  public String toString() {
    return text;
  }

  private boolean group(Expression asked, Set whole) {
    String column = column(asked);
    int d = column == null ? only(asked, table) : table.dimension(column);
    if (d < 0) {
      return false;
    }
    Dimension dimension = table.dimensions()[d];
    if (column != null) {
      whole.add(column);
      rows *= cells.along(d).size();
      groups.add(plain(column, null));
      name(asked, dimension.type());
      return true;
    }
    Derived derived = Derived.of(asked, dimension, table.zone());
    if (derived == null) {
      return false;
    }
    rows *= Math.min(derived.count(), cells.along(d).size());
    groups.add(derived.told());
    name(asked, derived.type);
    return true;
  }

  private boolean add(AggregateFunc function) {
    if (function instanceof CountStar) {
      return add("rows", function, null, DataTypes.LongType);
    } else if (function instanceof Count && !((Count) function).isDistinct()) {
      return add("count", function, ((Count) function).column(), DataTypes.LongType);
    } else if (function instanceof Sum && !((Sum) function).isDistinct()) {
      return add("sum", function, ((Sum) function).column(), null);
    } else if (function instanceof Min) {
      return add("min", function, ((Min) function).column(), null);
    } else if (function instanceof Max) {
      return add("max", function, ((Max) function).column(), null);
    }
    return false;
  }

  private boolean add(String function, AggregateFunc asked, Expression of, DataType result) {
    Map value = new HashMap();
    value.put("function", function);
    if (of != null) {
      Operand operand = operand(of);
      if (operand == null || !supports(function, operand)) {
        return false;
      }
      value.put("of", operand.told);
      if ("sum".equals(function)) {
        boolean real = isReal(operand.type);
        result = real ? DataTypes.DoubleType : DataTypes.LongType;
      } else if (result == null) {
        result = operand.type;
      }
    }
    values.add(value);
    name(asked, result);
    return true;
  }

  private void name(Expression asked, DataType type) {
    String text = asked.toString();
    boolean taken = schema.getFieldIndex(text).isDefined();
    schema = schema.add(taken ? text + " " + schema.length() : text, type, true);
  }

  /** What an aggregate is of: values of a variable, or values along a dimension. */
  private static final class Operand {
    final DataType type;
    final Map told;
    final double largest; // of integers along a dimension

    Operand(DataType type, Map told, double largest) {
      this.type = type;
      this.told = told;
      this.largest = largest;
    }
  }

  private Operand operand(Expression asked) {
    String variable = variable(asked, table);
    if (variable != null) {
      DataType type = type(asked, table);
      variables.add(variable);
      return new Operand(type, plain(variable, asked instanceof Cast ? type : null), 0);
    }
    int d = only(asked, table);
    if (d < 0) {
      return null;
    }
    Dimension dimension = table.dimensions()[d];
    String column = column(asked);
    Derived derived = column == null ? Derived.of(asked, dimension, table.zone()) : null;
    if (column == null && derived == null) {
      return null;
    }
    ofCoordinates = true;
    DataType type = column == null ? derived.type : dimension.type();
    Map told = column == null ? derived.told() : plain(column, null);
    double largest = Double.POSITIVE_INFINITY;
    if (derived != null || dimension.hasValues()) {
      largest = 0;
      Iterable all = derived != null ? derived.distinct() : java.util.Arrays.asList(dimension.values());
      for (Object each : all) {
        if (each instanceof Number) {
          largest = Math.max(largest, Math.abs(((Number) each).doubleValue()));
        }
      }
    }
    return new Operand(type, told, largest);
  }

  private boolean supports(String function, Operand operand) {
    DataType type = operand.type;
    if ("count".equals(function)) {
      return true;
    } else if ("sum".equals(function)) {
      return isReal(type) || (rank(type) >= 0 && operand.largest * cells.size() < SAFE);
    }
    return rank(type) >= 0
        || type instanceof BooleanType
        || type instanceof TimestampType
        || type instanceof DateType
        || type instanceof DayTimeIntervalType
        || type instanceof DecimalType;
  }

  private static Map plain(String column, DataType cast) {
    Map told = new HashMap();
    told.put("column", column);
    if (cast != null) {
      told.put("cast", Derived.code(cast));
    }
    return told;
  }

  /** Name of the column that an expression is, null if it is another one. */
  private static String column(Expression asked) {
    boolean named = asked instanceof NamedReference;
    String[] names = named ? ((NamedReference) asked).fieldNames() : new String[0];
    return names.length == 1 ? names[0] : null;
  }

  /** Name of the variable that an expression is, or casts to a wider number; null for others. */
  private static String variable(Expression asked, Description table) {
    Expression inner = asked instanceof Cast ? ((Cast) asked).expression() : asked;
    String name = column(inner);
    if (name == null || table.dimension(name) >= 0) {
      return null;
    }
    int from = rank(table.schema().apply(name).dataType());
    boolean widens = inner == asked || (from >= 0 && from < rank(((Cast) asked).dataType()));
    return widens ? name : null;
  }

  private static DataType type(Expression asked, Description table) {
    return asked instanceof Cast
        ? ((Cast) asked).dataType()
        : table.schema().apply(column(asked)).dataType();
  }

  /** The one dimension that an expression refers to, -1 if it refers to anything else. */
  private static int only(Expression asked, Description table) {
    int found = -1;
    for (NamedReference each : asked.references()) {
      String name = column(each);
      int d = name == null ? -1 : table.dimension(name);
      if (d < 0 || (found >= 0 && found != d)) {
        return -1;
      }
      found = d;
    }
    return found;
  }

  /** Numbers by what they can hold, -1 for all others. */
  static int rank(DataType type) {
    if (type instanceof ByteType) {
      return 0;
    } else if (type instanceof ShortType) {
      return 1;
    } else if (type instanceof IntegerType) {
      return 2;
    } else if (isLong(type)) {
      return 3;
    } else if (type instanceof FloatType) {
      return 4;
    }
    return type instanceof DoubleType ? 5 : -1;
  }

  private static boolean isLong(DataType type) {
    return type instanceof LongType;
  }

  private static boolean isReal(DataType type) {
    return rank(type) >= 4;
  }

  private static String describe(Aggregation asked) {
    StringBuilder text = new StringBuilder();
    for (AggregateFunc each : asked.aggregateExpressions()) {
      text.append(text.length() > 0 ? ", " : "").append(shown(each));
    }
    String by = text.length() > 0 ? " GROUP BY " : "GROUP BY ";
    for (Expression each : asked.groupByExpressions()) {
      text.append(by).append(shown(each));
      by = ", ";
    }
    return text.toString();
  }

  /** Spark 4.1 and 4.2 cannot write some literals: NULL of a type that is not primitive. */
  private static String shown(Expression each) {
    try {
      return each.toString();
    } catch (AssertionError error) {
      return "...";
    }
  }
}
