package frazil.spark;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The tables of one call of <code>frazil.spark.sql</code>, by the names that the call gives them.
 *
 * <p>The setting <code>secretTables</code> is JSON: for each name the <code>options</code> of its
 * table without those of a version, <code>pinned</code> (the snapshot that was found) and
 * <code>branch</code> (where a time is looked up), which are options, too. A name in several parts
 * is a group, or an array, below the table's own group. Nothing can be written.
 */
public class QueryCatalog implements TableCatalog {
  /** The setting; Spark hides those with "secret" in their name. */
  private static final String TABLES = "secretTables";

  private static final int KEPT = 64;
  /** Descriptions of pinned tables, which never change, by their options. */
  private static final Map DESCRIBED =
      new LinkedHashMap(16, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry eldest) {
          return size() > KEPT;
        }
      };

  private String name;
  private Map tables;

  public void initialize(String name, CaseInsensitiveStringMap settings) {
    this.name = name;
    this.tables = new LinkedHashMap();
    String given = settings.get(TABLES);
    if (given != null) {
      tables.putAll(Description.parse(given));
    }
  }

  public String name() {
    return name;
  }

  public Identifier[] listTables(String[] namespace) {
    Identifier[] found = new Identifier[namespace.length == 0 ? tables.size() : 0];
    Object[] names = tables.keySet().toArray();
    for (int i = 0; i < found.length; i++) {
      found[i] = new Name((String) names[i]);
    }
    return found;
  }

  public Table loadTable(Identifier asked) throws NoSuchTableException {
    return load(asked, null, null);
  }

  /** VERSION AS OF: a tag, a branch or a snapshot. */
  public Table loadTable(Identifier asked, String version) throws NoSuchTableException {
    return load(asked, "version", version);
  }

  /** TIMESTAMP AS OF, in microseconds. */
  public Table loadTable(Identifier asked, long timestamp) throws NoSuchTableException {
    return load(asked, "asOf", Long.valueOf(timestamp));
  }

  private Table load(Identifier asked, String time, Object when) throws NoSuchTableException {
    String[] parts = (String[]) Arrays.copyOf(asked.namespace(), asked.namespace().length + 1);
    parts[parts.length - 1] = asked.name();
    Map table = find(parts[0]);
    if (table == null) {
      throw new NoSuchTableException(asked);
    }
    Map options = new HashMap((Map) table.get("options"));
    if (time == null) {
      options.putAll((Map) table.get("pinned"));
    } else if (!"version".equals(time)) {
      options.putAll((Map) table.get("branch"));
    }
    if (parts.length > 1 || time != null) {
      Map question = errorsCarried();
      question.put("node", Arrays.asList(parts).subList(1, parts.length));
      if (time != null) {
        question.put(time, when);
      }
      options = (Map) Description.ask(options, question).get("options");
    }
    return new ReadOnly(String.join(".", parts), describe(options));
  }

  /** Errors of Python travel to the Python that made the query. */
  private static Map errorsCarried() {
    Map question = new HashMap();
    question.put("carry", Boolean.TRUE);
    return question;
  }

  /** Names differ by more than their case. */
  private Map find(String wanted) {
    for (Object each : tables.keySet()) {
      if (((String) each).equalsIgnoreCase(wanted)) {
        return (Map) tables.get(each);
      }
    }
    return null;
  }

  private static Description describe(Map options) {
    Description found;
    synchronized (DESCRIBED) {
      found = (Description) DESCRIBED.get(options);
    }
    if (found == null) {
      found = Description.of(options, errorsCarried());
      synchronized (DESCRIBED) {
        DESCRIBED.put(options, found);
      }
    }
    return found;
  }

  public Table createTable(
      Identifier asked, StructType schema, Transform[] partitions, Map properties) {
    throw new UnsupportedOperationException(READ_ONLY);
  }

  public Table alterTable(Identifier asked, TableChange[] changes) {
    throw new UnsupportedOperationException(READ_ONLY);
  }

  public boolean dropTable(Identifier asked) {
    throw new UnsupportedOperationException(READ_ONLY);
  }

  public void renameTable(Identifier asked, Identifier wanted) {
    throw new UnsupportedOperationException(READ_ONLY);
  }

  private static final String READ_ONLY = "the tables of a query can only be read";

  /** A name of one part. (Identifier.of is a static method of an interface, which janino lacks.) */
  private static final class Name implements Identifier {
    private final String name;

    Name(String name) {
      this.name = name;
    }

    public String[] namespace() {
      return new String[0];
    }

    public String name() {
      return name;
    }
  }

  private static final class ReadOnly extends ArrayTable {
    private final String name;

    ReadOnly(String name, Description described) {
      super(described.schema(), described.options(), described);
      this.name = name;
    }

    public String name() {
      return name;
    }

    public Set capabilities() {
      return EnumSet.of(TableCapability.BATCH_READ);
    }
  }
}
