package frazil.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A catalog of repositories: <code>spark.sql.catalog.frazil=frazil.spark.Catalog</code>.
 *
 * <p>Namespaces are folders, repositories and groups; tables are repositories, groups, arrays and
 * metadata tables. The Python side decides what a name stands for; this class asks it.
 */
public class Catalog extends ChangelogCatalog
    implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final String[] SYSTEM = {"system"};
  private static final Pattern SECRET =
      Pattern.compile("(?i)secret|password|token|access[.]?key"); // Spark's default
  private String name;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  /** Those of the session as they are now: a warehouse may be set after the first use. */
  private Map settings() {
    String prefix = "spark.sql.catalog." + name + ".";
    Map found = new HashMap();
    for (Object each : CollectionConverters.asJava(SQLConf.get().getAllConfs()).entrySet()) {
      Map.Entry setting = (Map.Entry) each;
      String key = (String) setting.getKey();
      if (key.startsWith(prefix)) {
        requireHidden(key);
        found.put(key.substring(prefix.length()), setting.getValue());
      }
    }
    return found;
  }

  /** Spark hides secrets in its event log only if they were among its settings at the start. */
  private static void requireHidden(String key) {
    SparkConf started = SparkEnv.get() == null ? null : SparkEnv.get().conf();
    boolean logged = started != null && started.getBoolean("spark.eventLog.enabled", false);
    if (logged && SECRET.matcher(key).find() && !started.contains(key)) {
      throw new IllegalArgumentException(
          key
              + " was set after Spark had started, and Spark writes such settings to its event log"
              + " as they are: set it when Spark starts, or leave credentials to the environment");
    }
  }

  private Map question(String kind) {
    Map question = new HashMap();
    question.put("catalog", kind);
    question.put("as", name);
    return question;
  }

  /** The answer; null if there is nothing of the name. */
  Map ask(String kind, Map more) {
    Map question = question(kind);
    question.putAll(more);
    Map answer = Description.ask(settings(), question);
    return isMissing(answer) ? null : answer;
  }

  /** The answer of a process that may run jobs. */
  Map askDriver(String kind, Map more) {
    Map question = question(kind);
    question.putAll(more);
    question.put("settings", settings());
    Map answer = PythonDriver.ask(question);
    require(answer);
    return answer;
  }

  private static boolean isMissing(Map answer) {
    String error = (String) answer.get("error");
    if (error != null && !Boolean.TRUE.equals(answer.get("missing"))) {
      throw new IllegalArgumentException(error);
    }
    return error != null;
  }

  private Map askIn(String kind, String[] namespace) throws NoSuchNamespaceException {
    Map more = new HashMap();
    more.put("in", namespace);
    Map answer = ask(kind, more);
    if (answer == null) {
      throw new NoSuchNamespaceException(namespace);
    }
    return answer;
  }

  // Namespaces

  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    List names = (List) askIn("namespaces", namespace).get("names");
    String[][] found = new String[names.size()][];
    for (int i = 0; i < found.length; i++) {
      found[i] = (String[]) Arrays.copyOf(namespace, namespace.length + 1);
      found[i][namespace.length] = (String) names.get(i);
    }
    return found;
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return (Map) askIn("namespace", namespace).get("properties");
  }

  // Tables

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List names = (List) askIn("tables", namespace).get("names");
    Identifier[] found = new Identifier[names.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Name(namespace, (String) names.get(i));
    }
    return found;
  }

  public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, question("table"));
  }

  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    Map question = question("table");
    question.put("version", version);
    return load(table, question);
  }

  /** The branch as it was, in microseconds since 1970. */
  public Table loadTable(Identifier table, long timestamp) throws NoSuchTableException {
    Map question = question("table");
    question.put("timestamp", Long.valueOf(timestamp));
    return load(table, question);
  }

  /** Spark calls this for statements that write. */
  public Table loadTable(Identifier table, Set privileges) throws NoSuchTableException {
    return loadTable(table);
  }

  private Table load(Identifier table, Map question) throws NoSuchTableException {
    return new CatalogTable(name + "." + table, describe(table, question));
  }

  Description describe(Identifier table, Map question) throws NoSuchTableException {
    question.put("in", table.namespace());
    question.put("name", table.name());
    Map settings = settings();
    StructType answer = Description.answer(settings, question);
    Map told = Description.answerIn(answer);
    if (isMissing(told)) {
      throw new NoSuchTableException(table);
    }
    return Description.in(answer, reaching((Map) told.get("options"), settings));
  }

  /** Options with those settings that say how storage is reached. */
  private static Map reaching(Map given, Map settings) {
    Map options = new HashMap(given);
    for (Object key : settings.keySet()) {
      String lower = ((String) key).toLowerCase(Locale.ROOT);
      if (lower.equals("authorize") || lower.startsWith("storage.")) {
        options.put(key, settings.get(key));
      }
    }
    return options;
  }

  public boolean tableExists(Identifier table) {
    Map more = new HashMap();
    more.put("in", table.namespace());
    more.put("name", table.name());
    return ask("exists", more) != null;
  }

  // Procedures

  public UnboundProcedure loadProcedure(Identifier wanted) {
    if (Arrays.equals(wanted.namespace(), SYSTEM)) {
      for (Object each : procedures()) {
        if (((Map) each).get("name").equals(wanted.name())) {
          return new CatalogProcedure(this, (Map) each);
        }
      }
    }
    throw new IllegalArgumentException(
        "no procedure " + wanted + "; those of " + name + " are " + procedureNames());
  }

  public Identifier[] listProcedures(String[] namespace) {
    if (namespace.length > 0 && !Arrays.equals(namespace, SYSTEM)) {
      return new Identifier[0];
    }
    List procedures = procedures();
    Identifier[] found = new Identifier[procedures.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Name(SYSTEM, (String) ((Map) procedures.get(i)).get("name"));
    }
    return found;
  }

  private List procedures() {
    return (List) ask("procedures", new HashMap()).get("procedures");
  }

  private String procedureNames() {
    StringBuilder names = new StringBuilder();
    for (Identifier each : listProcedures(SYSTEM)) {
      names.append(names.length() == 0 ? "" : ", ").append(each);
    }
    return names.toString();
  }

  // Functions: those that number the tasks of tables, which only plans name

  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  public UnboundFunction loadFunction(Identifier wanted) throws NoSuchFunctionException {
    ChunkNumber found = wanted.namespace().length == 0 ? ChunkNumber.named(wanted.name()) : null;
    if (found == null) {
      throw new NoSuchFunctionException(wanted);
    }
    return found;
  }

  // What writes

  /** The answer to a statement that defines something. */
  private Map define(String kind, String[] namespace, Map more) {
    Map question = new HashMap(more);
    question.put("ddl", kind);
    question.put("as", name);
    question.put("in", namespace);
    return Description.ask(settings(), question);
  }

  private Map define(String kind, Identifier table, Map more) {
    more.put("name", table.name());
    return define(kind, table.namespace(), more);
  }

  private static boolean says(Map answer, String what) {
    return Boolean.TRUE.equals(answer.get(what));
  }

  public Table createTable(Identifier table, TableInfo info) throws TableAlreadyExistsException {
    Map answer = define("create table", table, Definitions.of(info));
    if (says(answer, "exists")) {
      throw new TableAlreadyExistsException(table);
    }
    require(answer);
    return null; // Spark loads it when it needs it
  }

  // Tables with their rows: one commit

  public StagedTable stageCreate(Identifier table, TableInfo info)
      throws TableAlreadyExistsException {
    Map answer = define("stage table", table, Definitions.of(info));
    if (says(answer, "exists")) {
      throw new TableAlreadyExistsException(table);
    }
    return staged(table, info, answer, false);
  }

  public StagedTable stageReplace(Identifier table, TableInfo info) throws NoSuchTableException {
    if (!tableExists(table)) {
      throw new NoSuchTableException(table);
    }
    return stageCreateOrReplace(table, info);
  }

  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
    Map told = Definitions.of(info);
    told.put("replaces", Boolean.TRUE);
    return staged(table, info, define("stage table", table, told), true);
  }

  private StagedTable staged(Identifier table, TableInfo info, Map answer, boolean replaces) {
    require(answer);
    Map options = reaching((Map) answer.get("options"), settings());
    return new NewTable(this, table, info, options, replaces);
  }

  /** Makes a table without rows. */
  void create(Identifier table, TableInfo info, boolean replaces) {
    Map told = Definitions.of(info);
    told.put("replaces", Boolean.valueOf(replaces));
    require(define("create table", table, told));
  }

  public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
    Map more = new HashMap();
    more.put("changes", Definitions.of(changes));
    Map answer = define("alter table", table, more);
    if (says(answer, "missing")) {
      throw new NoSuchTableException(table);
    } else if (answer.get("error") != null) { // Spark would hide the text of the usual exception
      throw new UnsupportedOperationException((String) answer.get("error"));
    }
    return null;
  }

  public boolean dropTable(Identifier table) {
    return !isMissing(define("drop table", table, new HashMap()));
  }

  public boolean purgeTable(Identifier table) {
    throw new UnsupportedOperationException(
        "DROP TABLE removes a table from a branch, and older snapshots keep it, so that there is no"
            + " PURGE; CALL "
            + name
            + ".system.expire_snapshots and remove_orphan_files remove what no snapshot needs, and"
            + " frazil.Repository.purge_path a table from all of history");
  }

  public void renameTable(Identifier table, Identifier to)
      throws NoSuchTableException, TableAlreadyExistsException {
    Map more = new HashMap();
    String[] parts = (String[]) Arrays.copyOf(to.namespace(), to.namespace().length + 1);
    parts[parts.length - 1] = to.name();
    more.put("to", parts);
    Map answer = define("rename table", table, more);
    if (says(answer, "exists")) {
      throw new TableAlreadyExistsException(to);
    } else if (isMissing(answer)) {
      throw new NoSuchTableException(table);
    }
  }

  public void createNamespace(String[] namespace, Map properties)
      throws NamespaceAlreadyExistsException {
    Map more = new HashMap();
    more.put("properties", properties);
    Map answer = define("create namespace", namespace, more);
    if (says(answer, "exists")) {
      throw new NamespaceAlreadyExistsException(namespace);
    }
    require(answer);
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes)
      throws NoSuchNamespaceException {
    Map more = new HashMap();
    more.put("changes", Definitions.of(changes));
    if (isMissing(define("alter namespace", namespace, more))) {
      throw new NoSuchNamespaceException(namespace);
    }
  }

  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    Map more = new HashMap();
    more.put("cascade", Boolean.valueOf(cascade));
    Map answer = define("drop namespace", namespace, more);
    if (says(answer, "full")) {
      throw new NonEmptyNamespaceException(namespace);
    } else if (isMissing(answer)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return true;
  }

  private static void require(Map answer) {
    if (answer.get("error") != null) {
      throw new IllegalArgumentException((String) answer.get("error"));
    }
  }

  /** The name of a table or procedure; janino cannot call the static method of the interface. */
  private static final class Name implements Identifier {
    private final String[] namespace;
    private final String name;

    Name(String[] namespace, String name) {
      this.namespace = namespace;
      this.name = name;
    }

    public String[] namespace() {
      return namespace;
    }

    public String name() {
      return name;
    }

    public String toString() {
      return namespace.length == 0 ? name : String.join(".", namespace) + "." + name;
    }
  }
}
