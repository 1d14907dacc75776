package frazil.spark;

import java.io.Serializable;
import java.util.Arrays;

/** A set of positions along one dimension: ascending, disjoint ranges, each without its end. */
final class Ranges implements Serializable {
  static final Ranges NONE = new Ranges(new long[0]);

  private final long[] edges; // start, stop, start, stop and so on

  private Ranges(long[] edges) {
    this.edges = edges;
  }

  static Ranges of(long start, long stop) {
    return start < stop ? new Ranges(new long[] {start, stop}) : NONE;
  }

  /** Of their edges: start, stop, start, stop and so on. */
  static Ranges of(long[] edges) {
    return edges.length == 0 ? NONE : new Ranges(edges);
  }

  boolean isEmpty() {
    return edges.length == 0;
  }

  long[] edges() {
    return edges;
  }

  long size() {
    long size = 0;
    for (int i = 0; i < edges.length; i += 2) {
      size += edges[i + 1] - edges[i];
    }
    return size;
  }

  Ranges and(Ranges other) {
    Builder found = new Builder();
    int i = 0;
    int j = 0;
    while (i < edges.length && j < other.edges.length) {
      long start = Math.max(edges[i], other.edges[j]);
      long stop = Math.min(edges[i + 1], other.edges[j + 1]);
      found.add(start, stop);
      if (edges[i + 1] < other.edges[j + 1]) {
        i += 2;
      } else {
        j += 2;
      }
    }
    return found.build();
  }

  Ranges or(Ranges other) {
    Builder found = new Builder();
    int i = 0;
    int j = 0;
    while (i < edges.length || j < other.edges.length) {
      boolean own = j >= other.edges.length || (i < edges.length && edges[i] <= other.edges[j]);
      if (own) {
        found.add(edges[i], edges[i + 1]);
        i += 2;
      } else {
        found.add(other.edges[j], other.edges[j + 1]);
        j += 2;
      }
    }
    return found.build();
  }

  Ranges minus(Ranges other) {
    Builder found = new Builder();
    int j = 0;
    for (int i = 0; i < edges.length; i += 2) {
      long start = edges[i];
      while (j < other.edges.length && other.edges[j + 1] <= start) {
        j += 2;
      }
      for (int k = j; k < other.edges.length && other.edges[k] < edges[i + 1]; k += 2) {
        found.add(start, Math.min(other.edges[k], edges[i + 1]));
        start = Math.max(start, other.edges[k + 1]);
      }
      found.add(start, edges[i + 1]);
    }
    return found.build();
  }

  /** The first <code>count</code> positions. */
  Ranges first(long count) {
    Builder found = new Builder();
    for (int i = 0; i < edges.length && count > 0; i += 2) {
      long taken = Math.min(count, edges[i + 1] - edges[i]);
      found.add(edges[i], edges[i] + taken);
      count -= taken;
    }
    return found.build();
  }

  /** Numbers of the chunks of this size that hold one of the positions. */
  Ranges chunks(long chunk) {
    Builder found = new Builder();
    for (int i = 0; i < edges.length; i += 2) {
      found.add(edges[i] / chunk, (edges[i + 1] - 1) / chunk + 1);
    }
    return found.build();
  }

  public boolean equals(Object other) {
    return other instanceof Ranges && Arrays.equals(edges, ((Ranges) other).edges);
  }

  public int hashCode() {
    return Arrays.hashCode(edges);
  }

  /** Takes ranges by ascending start, and joins those that touch or overlap. */
  static final class Builder {
    private long[] edges = new long[16];
    private int used = 0;

    void add(long start, long stop) {
      if (start >= stop) {
        return;
      }
      if (used > 0 && start <= edges[used - 1]) {
        edges[used - 1] = Math.max(edges[used - 1], stop);
        return;
      }
      if (used + 2 > edges.length) {
        edges = Arrays.copyOf(edges, 2 * edges.length);
      }
      edges[used] = start;
      edges[used + 1] = stop;
      used += 2;
    }

    Ranges build() {
      return used == 0 ? NONE : new Ranges(Arrays.copyOf(edges, used));
    }
  }
}
