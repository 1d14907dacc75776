package frazil.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A set of cells of an array: a union of disjoint products, each of one set of positions per
 * dimension.
 */
final class Cells {
  /** A union of more products is not built: what needs it is left to Spark. */
  private static final int MOST_PRODUCTS = 64;

  private final List products; // of Ranges[]

  private Cells(List products) {
    this.products = products;
  }

  static Cells none() {
    return new Cells(new ArrayList());
  }

  static Cells of(Ranges[] product) {
    List products = new ArrayList();
    if (volume(product) > 0) {
      products.add(product);
    }
    return new Cells(products);
  }

  int count() {
    return products.size();
  }

  Ranges[] product(int i) {
    return (Ranges[]) products.get(i);
  }

  boolean isTooMany() {
    return products.size() > MOST_PRODUCTS;
  }

  /** Number of cells. */
  long size() {
    long size = 0;
    for (int i = 0; i < count(); i++) {
      size += volume(product(i));
    }
    return size;
  }

  Cells and(Cells other) {
    List found = new ArrayList();
    for (int i = 0; i < count(); i++) {
      for (int j = 0; j < other.count(); j++) {
        add(found, intersect(product(i), other.product(j)));
      }
    }
    return new Cells(found);
  }

  Cells or(Cells other) {
    List found = new ArrayList(products);
    found.addAll(other.minus(this).products);
    return new Cells(found);
  }

  Cells minus(Cells other) {
    List left = products;
    for (int j = 0; j < other.count(); j++) {
      List next = new ArrayList();
      for (int i = 0; i < left.size(); i++) {
        subtract((Ranges[]) left.get(i), other.product(j), next);
      }
      left = next;
    }
    return new Cells(left);
  }

  /** One product that has all the cells, and perhaps more; the same if they are few products. */
  Cells bounds() {
    if (!isTooMany()) {
      return this;
    }
    Ranges[] all = copy(product(0));
    for (int d = 0; d < all.length; d++) {
      all[d] = along(d);
    }
    return of(all);
  }

  /** Positions along one dimension of any cell. */
  Ranges along(int dimension) {
    Ranges found = Ranges.NONE;
    for (int i = 0; i < count(); i++) {
      found = found.or(product(i)[dimension]);
    }
    return found;
  }

  /** At most <code>rows</code> cells, unless there are fewer: the first ones, as few products as
   * possible; it may be some more than asked for. */
  Cells first(long rows) {
    List found = new ArrayList();
    for (int i = 0; i < count() && rows > 0; i++) {
      Ranges[] kept = copy(product(i));
      long each = volume(kept);
      for (int d = 0; d < kept.length; d++) {
        each /= kept[d].size();
        kept[d] = kept[d].first(Math.max(1, (rows + each - 1) / each));
        if (kept[d].size() > 1) {
          break;
        }
      }
      found.add(kept);
      rows -= volume(kept);
    }
    return new Cells(found);
  }

  /** Exactly that many cells, unless there are fewer: those with the lowest positions. */
  Cells exactlyFirst(long rows) {
    List found = new ArrayList();
    for (int i = 0; i < count() && rows > 0; i++) {
      Ranges[] rest = copy(product(i));
      long each = volume(rest);
      long taken = Math.min(rows, each);
      rows -= taken;
      for (int d = 0; d < rest.length && taken > 0; d++) {
        each /= rest[d].size();
        Ranges whole = rest[d].first(taken / each);
        Ranges[] piece = copy(rest);
        piece[d] = whole;
        add(found, piece);
        taken %= each;
        rest[d] = rest[d].first(whole.size() + 1).minus(whole);
      }
      if (rest.length == 0) {
        found.add(rest);
      }
    }
    return new Cells(found);
  }

  /** The cells at some positions along one dimension. */
  Cells along(int dimension, Ranges positions) {
    List found = new ArrayList();
    for (int i = 0; i < count(); i++) {
      Ranges[] product = copy(product(i));
      product[dimension] = product[dimension].and(positions);
      add(found, product);
    }
    return new Cells(found);
  }

  private static Ranges[] copy(Ranges[] product) {
    return (Ranges[]) Arrays.copyOf(product, product.length);
  }

  private static long volume(Ranges[] product) {
    long volume = 1;
    for (int d = 0; d < product.length; d++) {
      volume *= product[d].size();
    }
    return volume;
  }

  private static Ranges[] intersect(Ranges[] some, Ranges[] others) {
    Ranges[] both = new Ranges[some.length];
    for (int d = 0; d < some.length; d++) {
      both[d] = some[d].and(others[d]);
    }
    return both;
  }

  private static void subtract(Ranges[] from, Ranges[] taken, List into) {
    Ranges[] both = intersect(from, taken);
    if (volume(both) == 0) {
      into.add(from);
      return;
    }
    Ranges[] rest = copy(from);
    for (int d = 0; d < from.length; d++) {
      Ranges[] piece = copy(rest);
      piece[d] = from[d].minus(taken[d]);
      add(into, piece);
      rest[d] = both[d];
    }
  }

  private static void add(List products, Ranges[] product) {
    if (volume(product) > 0) {
      products.add(product);
    }
  }

  public String toString() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < count(); i++) {
      text.append(i > 0 ? " + " : "");
      for (int d = 0; d < product(i).length; d++) {
        text.append(d > 0 ? " x " : "").append(Arrays.toString(product(i)[d].edges()));
      }
    }
    return text.toString();
  }
}
