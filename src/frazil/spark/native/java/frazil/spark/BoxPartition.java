package frazil.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** A task whose rows are made of coordinates alone, without Python: a box of cells. */
final class BoxPartition implements InputPartition {
  final Ranges[] box;

  BoxPartition(Ranges[] box) {
    this.box = box;
  }

  /** Tasks of at most so many rows, if no dimension has to be cut within a position. */
  static InputPartition[] of(Cells cells, long mostRows) {
    List found = new ArrayList();
    for (int i = 0; i < cells.count(); i++) {
      cut(cells.product(i), 0, mostRows, found);
    }
    return (InputPartition[]) found.toArray(new InputPartition[0]);
  }

  private static void cut(Ranges[] box, int d, long mostRows, List found) {
    long rows = Cells.of(box).size();
    if (rows <= mostRows || d == box.length) {
      found.add(new BoxPartition(box));
      return;
    }
    long size = box[d].size();
    long parts = Math.min(size, (rows + mostRows - 1) / mostRows);
    Ranges left = box[d];
    for (long part = 1; part <= parts; part++) {
      Ranges taken = left.first(size * part / parts - size * (part - 1) / parts);
      left = left.minus(taken);
      Ranges[] smaller = (Ranges[]) Arrays.copyOf(box, box.length);
      smaller[d] = taken;
      cut(smaller, d + 1, mostRows, found);
    }
  }
}
