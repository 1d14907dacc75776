package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.DefaultValue;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A procedure that runs on the Python side: it takes values and returns rows as JSON. */
final class CatalogProcedure implements UnboundProcedure, BoundProcedure {
  private final Catalog catalog;
  private final Map told;

  CatalogProcedure(Catalog catalog, Map told) {
    this.catalog = catalog;
    this.told = told;
  }

  public String name() {
    return (String) told.get("name");
  }

  public String description() {
    return (String) told.get("about");
  }

  public BoundProcedure bind(StructType arguments) {
    return this;
  }

  /** What it shows may change with every commit. */
  public boolean isDeterministic() {
    return false;
  }

  public ProcedureParameter[] parameters() {
    List given = (List) told.get("parameters");
    ProcedureParameter[] found = new ProcedureParameter[given.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Parameter((Map) given.get(i));
    }
    return found;
  }

  public Iterator call(InternalRow given) {
    ProcedureParameter[] parameters = parameters();
    Map arguments = new HashMap();
    for (int i = 0; i < parameters.length; i++) {
      if (!given.isNullAt(i)) {
        DataType type = parameters[i].dataType();
        arguments.put(parameters[i].name(), toJson(given.get(i, type), type));
      }
    }
    Map question = new HashMap();
    question.put("name", name());
    question.put("arguments", arguments);
    Map answer =
        Boolean.TRUE.equals(told.get("cluster"))
            ? catalog.askDriver("call", question)
            : catalog.ask("call", question);
    List scans = new ArrayList();
    scans.add(new Rows(columns(), (List) answer.get("rows")));
    return scans.iterator();
  }

  private StructType columns() {
    return StructType.fromDDL((String) told.get("columns"));
  }

  private static Object toJson(Object value, DataType type) {
    if (type instanceof ArrayType) {
      ArrayData values = (ArrayData) value;
      DataType element = ((ArrayType) type).elementType();
      List found = new ArrayList();
      for (int i = 0; i < values.numElements(); i++) {
        found.add(values.isNullAt(i) ? null : toJson(values.get(i, element), element));
      }
      return found;
    } else if (type instanceof MapType) {
      MapData entries = (MapData) value;
      MapType of = (MapType) type;
      Map found = new HashMap();
      for (int i = 0; i < entries.numElements(); i++) {
        Object key = toJson(entries.keyArray().get(i, of.keyType()), of.keyType());
        boolean empty = entries.valueArray().isNullAt(i);
        found.put(
            key,
            empty ? null : toJson(entries.valueArray().get(i, of.valueType()), of.valueType()));
      }
      return found;
    }
    return value instanceof UTF8String ? value.toString() : value;
  }

  private static Object fromJson(Object value, DataType type) {
    if (value == null) {
      return null;
    } else if (type instanceof ArrayType) {
      List values = (List) value;
      Object[] found = new Object[values.size()];
      for (int i = 0; i < found.length; i++) {
        found[i] = fromJson(values.get(i), ((ArrayType) type).elementType());
      }
      return new GenericArrayData(found);
    } else if (type instanceof StringType) {
      return UTF8String.fromString((String) value);
    } else if (type instanceof BooleanType) {
      return value;
    } else if (type instanceof IntegerType) {
      return Integer.valueOf(((Number) value).intValue());
    }
    return Long.valueOf(((Number) value).longValue()); // BIGINT, and TIMESTAMP in microseconds
  }

  /** A parameter; janino cannot call the static method of the interface that would build one. */
  private static final class Parameter implements ProcedureParameter {
    private final Map told;

    Parameter(Map told) {
      this.told = told;
    }

    public ProcedureParameter.Mode mode() {
      return ProcedureParameter.Mode.IN;
    }

    public String name() {
      return (String) told.get("name");
    }

    public DataType dataType() {
      return DataType.fromDDL((String) told.get("type"));
    }

    public DefaultValue defaultValue() {
      String sql = (String) told.get("default");
      return sql == null ? null : new DefaultValue(sql);
    }

    public String comment() {
      return (String) told.get("about");
    }
  }

  /** The result of a call. */
  private static final class Rows implements LocalScan {
    private final StructType columns;
    private final InternalRow[] rows;

    Rows(StructType columns, List told) {
      this.columns = columns;
      rows = new InternalRow[told.size()];
      for (int i = 0; i < rows.length; i++) {
        List values = (List) told.get(i);
        Object[] found = new Object[values.size()];
        for (int k = 0; k < found.length; k++) {
          found[k] = fromJson(values.get(k), columns.fields()[k].dataType());
        }
        rows[i] = new GenericInternalRow(found);
      }
    }

    public StructType readSchema() {
      return columns;
    }

    public InternalRow[] rows() {
      return rows;
    }
  }
}
