package frazil.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What the Python side tells about a table: columns, dimensions, chunks, and the snapshot it is
 * pinned to. It never changes.
 */
final class Description {
  private static final String ANSWER = "frazil";
  private static final ObjectMapper JSON = new ObjectMapper();

  private final CaseInsensitiveStringMap options;
  private final StructType schema;
  private final Map told;
  private final Dimension[] dimensions;
  private final List variables;
  private final String zone = SQLConf.get().sessionLocalTimeZone();

  private Description(Map options, StructType schema, Map told) {
    this.options = new CaseInsensitiveStringMap(options);
    this.schema = schema;
    this.told = told;
    List dims = (List) told.get("dimensions");
    dimensions = new Dimension[dims.size()];
    for (int d = 0; d < dimensions.length; d++) {
      dimensions[d] = new Dimension(this, (Map) dims.get(d));
    }
    variables = new ArrayList();
    for (Object each : (List) told.get("variables")) {
      variables.add(new Variable((Map) each, dimensions));
    }
  }

  static Description of(Map options) {
    return of(options, new HashMap());
  }

  /** With more fields of the question than its own. */
  static Description of(Map options, Map more) {
    Map question = new HashMap(more);
    question.put("describe", Boolean.TRUE);
    return in(answer(options, question), options);
  }

  /** The description in an answer, of the table that the options read. */
  static Description in(StructType answer, Map options) {
    StructField[] fields = answer.fields();
    StructType schema = new StructType((StructField[]) Arrays.copyOf(fields, fields.length - 1));
    Map told = answerIn(answer);
    String ddl = (String) told.get("ddl");
    return new Description(options, ddl == null ? schema : StructType.fromDDL(ddl), told);
  }

  /** Answers another question about the same snapshot. */
  Map ask(Map question) {
    Map pinned = new HashMap(question);
    pinned.put("snapshot", told.get("snapshot"));
    return answerIn(Python.ask(with(options(), Python.QUESTION, write(pinned))));
  }

  /** Asks a question that is not about a table. */
  static Map ask(Map options, Map question) {
    return answerIn(answer(options, question));
  }

  /** The answer with its columns. */
  static StructType answer(Map options, Map question) {
    return Python.ask(with(options, Python.QUESTION, write(question)));
  }

  static Map answerIn(StructType answer) {
    StructField last = answer.fields()[answer.length() - 1];
    return parse(last.metadata().getString(ANSWER));
  }

  static Map parse(String json) {
    try {
      return (Map) JSON.readValue(json, Map.class);
    } catch (IOException error) {
      throw new IllegalStateException("the Python side gave something that is not JSON", error);
    }
  }

  static String write(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Map with(Map options, String name, String value) {
    Map more = new HashMap(options);
    more.put(name, value);
    return more;
  }

  boolean answers(Map others) {
    return options.equals(new CaseInsensitiveStringMap(others));
  }

  Map options() {
    return options.asCaseSensitiveMap();
  }

  StructType schema() {
    return schema;
  }

  /** Name for people, without anything secret. */
  String title() {
    return (String) told.get("title");
  }

  String snapshot() {
    return (String) told.get("snapshot");
  }

  /** Time zone of the session when the table was described. */
  String zone() {
    return zone;
  }

  /** False for chunks as rows, metadata tables and streams: they take no pushdown but columns. */
  boolean hasCells() {
    return "cells".equals(told.get("kind"));
  }

  Map properties() {
    return (Map) told.get("properties");
  }

  Dimension[] dimensions() {
    return dimensions;
  }

  /** Index of the dimension whose column has this name, -1 if none has. */
  int dimension(String column) {
    for (int d = 0; d < dimensions.length; d++) {
      if (dimensions[d].name().equals(column)) {
        return d;
      }
    }
    return -1;
  }

  /** All variables, as {@link Variable}. */
  List variables() {
    return variables;
  }

  /** All cells there are. */
  Cells everything() {
    Ranges[] all = new Ranges[dimensions.length];
    for (int d = 0; d < all.length; d++) {
      all[d] = dimensions[d].selected();
    }
    return Cells.of(all);
  }

  /** An array behind a column: its chunks along the dimensions of the table. */
  static final class Variable {
    final String name;
    private final long[] chunks;
    private final Dimension[] dimensions;

    Variable(Map told, Dimension[] dimensions) {
      this.name = (String) told.get("name");
      this.dimensions = dimensions;
      List given = (List) told.get("chunks");
      chunks = new long[given.size()];
      for (int d = 0; d < chunks.length; d++) {
        chunks[d] = ((Number) given.get(d)).longValue();
      }
    }

    /** Length of chunks along one dimension. */
    long chunk(int dimension) {
      return chunks[dimension];
    }

    /** Number of chunks that hold one of the cells. */
    long chunks(Cells cells) {
      Cells touched = Cells.none();
      for (int i = 0; i < cells.count(); i++) {
        Ranges[] product = (Ranges[]) Arrays.copyOf(cells.product(i), chunks.length);
        for (int d = 0; d < product.length; d++) {
          product[d] = product[d].chunks(chunks[d]);
        }
        touched = touched.or(Cells.of(product));
      }
      return touched.size();
    }

    /** Number of chunks in the grid. */
    long chunks() {
      long count = 1;
      for (int d = 0; d < chunks.length; d++) {
        count *= (dimensions[d].size() + chunks[d] - 1) / chunks[d];
      }
      return count;
    }
  }
}
