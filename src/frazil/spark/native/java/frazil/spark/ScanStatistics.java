package frazil.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.StructType;

/** Exact numbers of rows, and what is known of coordinates, from shapes alone. */
final class ScanStatistics implements Statistics {
  private final Description table;
  private final StructType columns;
  private final Cells cells;
  private final double share;
  private final Aggregates aggregates;

  ScanStatistics(
      Description table,
      StructType columns,
      Cells cells,
      ArrayScanBuilder.Sample sample,
      Aggregates aggregates) {
    this.aggregates = aggregates;
    this.table = table;
    this.columns = columns;
    this.cells = cells;
    this.share = sample == null ? 1 : sample.upper - sample.lower;
  }

  public OptionalLong sizeInBytes() {
    long width = columns.defaultSize();
    return table.hasCells() ? OptionalLong.of(Math.max(1, rows() * width)) : OptionalLong.empty();
  }

  public OptionalLong numRows() {
    return table.hasCells() ? OptionalLong.of(rows()) : OptionalLong.empty();
  }

  private long rows() {
    return aggregates != null ? aggregates.rows() : (long) Math.ceil(cells.size() * share);
  }

  public Map columnStats() {
    Map found = new HashMap();
    for (int d = 0; d < table.dimensions().length && aggregates == null; d++) {
      Dimension dimension = table.dimensions()[d];
      if (columns.getFieldIndex(dimension.name()).isDefined() && dimension.isAtHand()) {
        found.put(
            Expressions.column("`" + dimension.name().replace("`", "``") + "`"),
            of(dimension.extent(cells.along(d))));
      }
    }
    return found;
  }

  private ColumnStatistics of(final Dimension.Extent extent) {
    return new ColumnStatistics() {
      public OptionalLong distinctCount() {
        return OptionalLong.of(extent.distinct);
      }

      public Optional min() {
        return Optional.ofNullable(extent.least);
      }

      public Optional max() {
        return Optional.ofNullable(extent.greatest);
      }

      public OptionalLong nullCount() {
        return extent.hasNull ? OptionalLong.empty() : OptionalLong.of(0);
      }
    };
  }
}
