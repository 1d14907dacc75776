package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes columns, and comparisons of coordinates with literals. Coordinates may differ from commit to
 * commit, so the Python side looks up which positions they mean, and Spark applies them again.
 */
final class ChangesScanBuilder
    implements SupportsPushDownCatalystFilters, SupportsPushDownRequiredColumns {
  /** The option that carries what was pushed down. */
  private static final String PRUNE = "frazilPrune";

  private final String name;
  private final Map stream;
  private final Map options;
  private final List dimensions;
  private final boolean net;
  private final List pushed = new ArrayList();
  private final List texts = new ArrayList();
  private final StructType whole;
  private StructType columns;

  ChangesScanBuilder(String name, Description described, Map options, boolean net) {
    this.name = name;
    this.options = options;
    this.net = net;
    this.whole = described.schema();
    this.columns = whole;
    this.dimensions = Changes.dimensions(described);
    this.stream = (Map) described.properties().get("stream");
  }

  /** All of them: Spark has to apply each itself. */
  public Seq pushFilters(Seq filters) {
    for (Object each : CollectionConverters.asJava(filters)) {
      Expression filter = (Expression) each;
      Map bounds = filter.deterministic() ? Bounds.of(filter) : null;
      Object column =
          bounds != null && filter.references().size() == 1
              ? ((Attribute) filter.references().iterator().next()).name()
              : null;
      if (dimensions.contains(column)) {
        Map one = new HashMap();
        one.put(column, bounds);
        pushed.add(one);
        texts.add(filter.sql());
      }
    }
    return filters;
  }

  public Predicate[] pushedFilters() {
    return new Predicate[0];
  }

  public void pruneColumns(StructType required) {
    StructType found = new StructType();
    for (StructField field : required.fields()) {
      boolean known = whole.getFieldIndex(field.name()).isDefined();
      found = found.add(known ? whole.apply(field.name()) : field);
    }
    columns = found;
  }

  public Scan build() {
    Map more = new HashMap();
    if (!pushed.isEmpty()) {
      more.put(PRUNE, Description.write(pushed));
    }
    StructType first = new StructType(new StructField[] {whole.fields()[0]});
    return new ChangesScan(columns.length() > 0 ? columns : first, more);
  }

  /** A decided read of changes. */
  private final class ChangesScan implements Scan {
    private final StructType read;
    private final Map more;
    private boolean streaming;

    ChangesScan(StructType read, Map more) {
      this.read = read;
      this.more = more;
    }

    public StructType readSchema() {
      return read;
    }

    public String description() {
      Object from = options.get("from");
      return name + " from " + from + " to " + options.get("to") + ", pruned by: " + texts;
    }

    public Scan.ColumnarSupportMode columnarSupportMode() {
      return !streaming && PythonColumns.areThere()
          ? Scan.ColumnarSupportMode.SUPPORTED
          : Scan.ColumnarSupportMode.UNSUPPORTED;
    }

    public Batch toBatch() {
      Map all = new HashMap(options);
      all.putAll(more);
      return new ArrayBatch(all, CoordinateColumns.none(read), false, null, null);
    }

    /** The commits after the first version, as they come; a batch has no end to compare with. */
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      if (net) {
        throw new UnsupportedOperationException(
            "net changes are those between two versions, and a stream has only the first:"
                + " leave deduplicationMode out");
      }
      streaming = true;
      Map all = new HashMap(options);
      all.remove("from");
      all.remove("to");
      all.remove("net");
      all.putAll(stream);
      all.putAll(more);
      return Python.stream(all, read, checkpoint);
    }
  }
}
