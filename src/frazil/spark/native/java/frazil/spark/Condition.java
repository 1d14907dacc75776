package frazil.spark;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.AlwaysFalse;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import scala.collection.Iterator;

/**
 * A condition, as the cells for which it may be true and those for which it may be false.
 *
 * <p>If it is exact, these are the cells for which it is true, and false; for all others it is NULL.
 * Conditions on one dimension are evaluated by Spark at each value of its coordinate; AND, OR and
 * NOT become sets. What refers to variables, or to two dimensions at once, is not exact, and neither
 * is what refers to a dimension with very many values.
 */
final class Condition {
  final Cells holds;
  final Cells fails;
  final boolean exact;

  private Condition(Cells holds, Cells fails, boolean exact) {
    this.holds = holds;
    this.fails = fails;
    this.exact = exact;
  }

  static Condition of(Expression expression, Description table) {
    Cells all = table.everything();
    Condition unknown = new Condition(all, all, false);
    if (!expression.deterministic()) {
      return unknown;
    }
    int dimension = onlyDimension(expression, table);
    if (dimension >= 0) {
      Condition leaf = leaf(expression, table, dimension, all);
      if (leaf != null) {
        return leaf;
      }
    }
    if (expression instanceof And) {
      And both = (And) expression;
      return of(both.left(), table).and(of(both.right(), table));
    } else if (expression instanceof Or) {
      Or either = (Or) expression;
      return of(either.left(), table).or(of(either.right(), table));
    } else if (expression instanceof Not) {
      return of(((Not) expression).child(), table).not();
    }
    return unknown;
  }

  /** Of a condition in the words of Spark's data sources, which tell no time zone. */
  static Condition of(Predicate predicate, Description table) {
    Cells all = table.everything();
    if (predicate instanceof AlwaysTrue) {
      return new Condition(all, Cells.none(), true);
    } else if (predicate instanceof AlwaysFalse) {
      return new Condition(Cells.none(), all, true);
    }
    int d = onlyDimension(predicate, table);
    Ranges[] found =
        d < 0 ? null : Derived.positions(predicate, table.dimensions()[d], table.zone());
    if (found != null) {
      return new Condition(all.along(d, found[0]), all.along(d, found[1]), true);
    } else if (predicate instanceof org.apache.spark.sql.connector.expressions.filter.And) {
      Predicate[] parts = parts(predicate);
      return of(parts[0], table).and(of(parts[1], table));
    } else if (predicate instanceof org.apache.spark.sql.connector.expressions.filter.Or) {
      Predicate[] parts = parts(predicate);
      return of(parts[0], table).or(of(parts[1], table));
    } else if (predicate instanceof org.apache.spark.sql.connector.expressions.filter.Not) {
      return of(parts(predicate)[0], table).not();
    }
    return new Condition(all, all, false);
  }

  private static Predicate[] parts(Predicate predicate) {
    Predicate[] parts = new Predicate[predicate.children().length];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = (Predicate) predicate.children()[i];
    }
    return parts;
  }

  Condition and(Condition other) {
    return few(holds.and(other.holds), fails.or(other.fails), exact && other.exact);
  }

  Condition or(Condition other) {
    return few(holds.or(other.holds), fails.and(other.fails), exact && other.exact);
  }

  Condition not() {
    return new Condition(fails, holds, exact);
  }

  private static Condition few(Cells holds, Cells fails, boolean exact) {
    boolean few = !holds.isTooMany() && !fails.isTooMany();
    return few
        ? new Condition(holds, fails, exact)
        : new Condition(holds.bounds(), fails.bounds(), false);
  }

  private static Condition leaf(Expression expression, Description table, int d, Cells all) {
    Dimension dimension = table.dimensions()[d];
    if (!dimension.hasValues()) {
      Ranges near = dimension.near(expression);
      return near == null ? null : new Condition(all.along(d, near), all, false);
    }
    Ranges[] found = dimension.evaluate(expression);
    return found == null
        ? null
        : new Condition(all.along(d, found[0]), all.along(d, found[1]), true);
  }

  private static int onlyDimension(Predicate predicate, Description table) {
    int found = -1;
    for (NamedReference each : predicate.references()) {
      int d = each.fieldNames().length == 1 ? table.dimension(each.fieldNames()[0]) : -1;
      if (d < 0 || (found >= 0 && found != d)) {
        return -1;
      }
      found = d;
    }
    return found;
  }

  /** The one dimension that an expression refers to, -1 if there are others or none. */
  private static int onlyDimension(Expression expression, Description table) {
    int found = -1;
    Iterator references = expression.references().iterator();
    while (references.hasNext()) {
      int d = table.dimension(((Attribute) references.next()).name());
      if (d < 0 || (found >= 0 && found != d)) {
        return -1;
      }
      found = d;
    }
    return found;
  }
}
