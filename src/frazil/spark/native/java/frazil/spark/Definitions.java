package frazil.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** Definitions of tables and namespaces, and changes of them, as values for JSON. */
final class Definitions {
  private Definitions() {}

  /** The fields <code>schema</code>, <code>partitions</code> and <code>properties</code>. */
  static Map of(TableInfo info) {
    Map told = new HashMap();
    told.put("schema", info.schema().json());
    told.put("properties", info.properties());
    List partitions = new ArrayList();
    for (Transform each : info.partitions()) {
      partitions.add(of(each));
    }
    told.put("partitions", partitions);
    for (Column each : info.columns()) {
      if (each.defaultValue() != null) {
        told.put("default", each.name());
      }
    }
    return told;
  }

  private static Map of(Transform transform) {
    Map told = new HashMap();
    told.put("name", transform.name());
    told.put("text", transform.describe());
    List columns = new ArrayList();
    for (NamedReference each : transform.references()) {
      columns.add(Arrays.asList(each.fieldNames()));
    }
    told.put("columns", columns);
    return told;
  }

  static List of(TableChange[] changes) {
    List told = new ArrayList();
    for (TableChange each : changes) {
      told.add(of(each));
    }
    return told;
  }

  private static Map of(TableChange change) {
    if (change instanceof TableChange.SetProperty) {
      TableChange.SetProperty set = (TableChange.SetProperty) change;
      return set(set.property(), set.value());
    } else if (change instanceof TableChange.RemoveProperty) {
      return remove(((TableChange.RemoveProperty) change).property());
    } else if (change instanceof TableChange.ColumnChange) {
      Map told = ofColumn(change);
      told.put("column", ((TableChange.ColumnChange) change).fieldNames());
      return told;
    }
    return change("other", "text", change.getClass().getSimpleName());
  }

  private static Map ofColumn(TableChange change) {
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn add = (TableChange.AddColumn) change;
      Map told = change("add column", "type", add.dataType().json());
      told.put("nullable", Boolean.valueOf(add.isNullable()));
      told.put("comment", add.comment());
      told.put("position", add.position() == null ? null : add.position().toString());
      told.put("default", Boolean.valueOf(add.defaultValue() != null));
      return told;
    } else if (change instanceof TableChange.DeleteColumn) {
      return change("drop column", "ifExists", ((TableChange.DeleteColumn) change).ifExists());
    } else if (change instanceof TableChange.RenameColumn) {
      return change("rename column", "to", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.UpdateColumnComment) {
      String comment = ((TableChange.UpdateColumnComment) change).newComment();
      return change("comment", "comment", comment);
    } else if (change instanceof TableChange.UpdateColumnType) {
      String type = ((TableChange.UpdateColumnType) change).newDataType().simpleString();
      return change("type", "type", type);
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      boolean nullable = ((TableChange.UpdateColumnNullability) change).nullable();
      return change("nullability", "nullable", Boolean.valueOf(nullable));
    }
    return change("other", "text", change.getClass().getSimpleName());
  }

  static List of(NamespaceChange[] changes) {
    List told = new ArrayList();
    for (NamespaceChange each : changes) {
      if (each instanceof NamespaceChange.SetProperty) {
        NamespaceChange.SetProperty set = (NamespaceChange.SetProperty) each;
        told.add(set(set.property(), set.value()));
      } else if (each instanceof NamespaceChange.RemoveProperty) {
        told.add(remove(((NamespaceChange.RemoveProperty) each).property()));
      } else {
        told.add(change("other", "text", each.getClass().getSimpleName()));
      }
    }
    return told;
  }

  private static Map set(String property, String value) {
    Map told = change("set", "property", property);
    told.put("value", value);
    return told;
  }

  private static Map remove(String property) {
    return change("unset", "property", property);
  }

  private static Map change(String kind, String field, Object value) {
    Map told = new HashMap();
    told.put("change", kind);
    told.put(field, value);
    return told;
  }
}
