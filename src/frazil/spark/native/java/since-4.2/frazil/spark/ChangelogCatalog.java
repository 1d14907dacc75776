package frazil.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Finds what <code>SELECT ... FROM table CHANGES FROM VERSION ...</code> reads. */
abstract class ChangelogCatalog implements TableCatalog {
  /** The answer to a question about a table of the catalog. */
  abstract Description describe(Identifier table, Map question) throws NoSuchTableException;

  public Changelog loadChangelog(
      Identifier table, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    boolean net =
        context.deduplicationMode() == ChangelogContext.DeduplicationMode.NET_CHANGES;
    Map question = new HashMap();
    question.put("catalog", "changes");
    question.put("as", name());
    question.put("range", range(context.range()));
    question.put("net", Boolean.valueOf(net));
    return new Changes(name() + "." + table, describe(table, question), net);
  }

  private static Map range(ChangelogRange asked) {
    Map range = new HashMap();
    range.put("fromIncluded", Boolean.valueOf(asked.startingBoundInclusive()));
    range.put("toIncluded", Boolean.valueOf(asked.endingBoundInclusive()));
    if (asked instanceof ChangelogRange.VersionRange) {
      ChangelogRange.VersionRange versions = (ChangelogRange.VersionRange) asked;
      range.put("fromVersion", versions.startingVersion());
      put(range, "toVersion", versions.endingVersion());
    } else if (asked instanceof ChangelogRange.TimestampRange) {
      ChangelogRange.TimestampRange times = (ChangelogRange.TimestampRange) asked;
      range.put("fromTime", Long.valueOf(times.startingTimestamp()));
      put(range, "toTime", times.endingTimestamp());
    }
    return range;
  }

  private static void put(Map range, String name, Optional given) {
    if (given.isPresent()) {
      range.put(name, given.get());
    }
  }
}
