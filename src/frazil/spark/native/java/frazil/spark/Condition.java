package frazil.spark;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
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
    Condition found = null;
    if (expression instanceof And) {
      Condition a = of(((And) expression).left(), table);
      Condition b = of(((And) expression).right(), table);
      found = new Condition(a.holds.and(b.holds), a.fails.or(b.fails), a.exact && b.exact);
    } else if (expression instanceof Or) {
      Condition a = of(((Or) expression).left(), table);
      Condition b = of(((Or) expression).right(), table);
      found = new Condition(a.holds.or(b.holds), a.fails.and(b.fails), a.exact && b.exact);
    } else if (expression instanceof Not) {
      Condition a = of(((Not) expression).child(), table);
      found = new Condition(a.fails, a.holds, a.exact);
    }
    if (found == null) {
      return unknown;
    }
    boolean few = !found.holds.isTooMany() && !found.fails.isTooMany();
    return few ? found : new Condition(found.holds.bounds(), found.fails.bounds(), false);
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
