package frazil.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Rows that Python stages on executors and makes chunks of.
 *
 * <p>Rows come as they are, in no required order: Python finds out whether they are in that of a
 * grid. Few rows become chunks in the driver's Python process, at the commit. For more, the commit
 * plans tasks, which Spark then runs: see {@link WriteJob}.
 */
class RowWrite implements Write {
  /** The column that says what is done with a row, if not all of them are written. */
  static final String OPERATION = "frazilOperation";

  private static final String OPTION = "frazilWrite";
  /** The setting: so many rows of a write become chunks in the driver's Python process. */
  private static final String DRIVER_ROWS = "spark.frazil.write.driverRows";
  /** The setting: references to so many chunks go to it, and executors write manifests of more. */
  private static final String DRIVER_CHUNKS = "spark.frazil.write.driverChunks";

  private final LogicalWriteInfo info;
  private final boolean truncates;
  private final Map options;
  private final PackedRows.Layout packed; // of rows that go to Python packed, or null
  private final long mostRows = setting(DRIVER_ROWS, "1000000");
  private final long mostChunks = setting(DRIVER_CHUNKS, "65536");

  /** With what the Python side must know beside the options that people give. */
  RowWrite(Map options, Map told, LogicalWriteInfo info, boolean truncates) {
    this.info = info;
    this.truncates = truncates;
    Map more = new HashMap(told);
    more.put("job", UUID.randomUUID().toString());
    more.put("rows", Long.valueOf(mostRows));
    more.put("chunks", Long.valueOf(mostChunks));
    int batch = SQLConf.get().arrowMaxRecordsPerBatch();
    packed = packs() ? PackedRows.Layout.of(info.schema(), batch) : null;
    if (packed != null) {
      more.put("packed", packed.schema.json());
      more.put("packedRows", Integer.valueOf(packed.capacity));
    }
    this.options = new HashMap(options);
    this.options.put(OPTION, Description.write(more));
  }

  /** True if rows may be handed to Python packed. */
  boolean packs() {
    return true;
  }

  private static long setting(String name, String usual) {
    return Long.parseLong(SQLConf.get().getConfString(name, usual).trim());
  }

  public String description() {
    return "icechunk";
  }

  /** Spark's own write of Python data sources, which stages the rows. */
  Write staging() {
    StructType staged = packed == null ? schema() : PackedRows.SCHEMA;
    return Python.write(new Info(info, options, staged), truncates);
  }

  StructType schema() {
    return info.schema();
  }

  WriteJob job() {
    return new WriteJob(options, Math.min(mostRows, mostChunks));
  }

  public BatchWrite toBatch() {
    return new RowBatchWrite(staging().toBatch(), job(), packed);
  }

  public StreamingWrite toStreaming() {
    return new RowStreamingWrite(staging().toStreaming(), job(), packed);
  }

  /** Rows of UPDATE, DELETE and MERGE: each is written, or its cell is emptied. */
  static final class Delta extends RowWrite implements DeltaWrite {
    private final LogicalWriteInfo info;

    Delta(Map options, Map told, LogicalWriteInfo info) {
      super(options, told, info, false);
      this.info = info;
    }

    boolean packs() {
      return false;
    }

    /** The columns of the table; DELETE tells those that locate a row, and no others. */
    StructType schema() {
      StructType rows = info.schema().length() > 0 ? info.schema() : rowId();
      return rows.add(OPERATION, DataTypes.ByteType, false);
    }

    private StructType rowId() {
      return (StructType) info.rowIdSchema().get();
    }

    public DeltaBatchWrite toBatch() {
      return new DeltaRows(staging().toBatch(), job(), schema(), rowId());
    }
  }

  /** What Spark says about a write, with other options and columns. */
  private static final class Info implements LogicalWriteInfo {
    private final LogicalWriteInfo told;
    private final Map options;
    private final StructType schema;

    Info(LogicalWriteInfo told, Map options, StructType schema) {
      this.told = told;
      this.options = options;
      this.schema = schema;
    }

    public CaseInsensitiveStringMap options() {
      return new CaseInsensitiveStringMap(options);
    }

    public String queryId() {
      return told.queryId();
    }

    public StructType schema() {
      return schema;
    }
  }
}
