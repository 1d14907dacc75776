package frazil.spark;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/**
 * The work that is left after the rows of a write have been staged, if they are many.
 *
 * <p>The Python side says how many tasks it is, round by round, until nothing is left. Spark runs
 * the tasks of a round as a write of their numbers. Those of the first make chunks, and if these
 * are many, those of the second write manifests; the commit of the last round is that to the
 * repository.
 */
final class WriteJob {
  /** The option of a write of task numbers: what they do, Python knows. */
  static final String TASKS = "frazilTasks";

  private final Map options;
  private final long few;

  /** Of `few` rows, or less, Python's commit leaves nothing to do. */
  WriteJob(Map options, long few) {
    this.options = options;
    this.few = few;
  }

  /**
   * The message of a task: those of Python's writers, and the number of rows that they staged.
   *
   * <p>It is of a class of Spark, for the driver reads results of tasks without the classes that a
   * session brought.
   */
  static WriterCommitMessage pack(List messages, long rows) {
    int size = 12;
    for (Object each : messages) {
      size += 4 + ((PythonWriterCommitMessage) each).pickledMessage().length;
    }
    ByteBuffer packed = ByteBuffer.allocate(size).putLong(rows).putInt(messages.size());
    for (Object each : messages) {
      byte[] pickled = ((PythonWriterCommitMessage) each).pickledMessage();
      packed.putInt(pickled.length).put(pickled);
    }
    return new PythonWriterCommitMessage(packed.array());
  }

  private static ByteBuffer packed(WriterCommitMessage message) {
    return ByteBuffer.wrap(((PythonWriterCommitMessage) message).pickledMessage());
  }

  /** The messages of Python's writers. */
  static WriterCommitMessage[] unpack(WriterCommitMessage[] messages) {
    List found = new ArrayList();
    for (WriterCommitMessage each : messages) {
      if (each != null) {
        ByteBuffer packed = packed(each);
        packed.getLong();
        for (int left = packed.getInt(); left > 0; left--) {
          byte[] pickled = new byte[packed.getInt()];
          packed.get(pickled);
          found.add(new PythonWriterCommitMessage(pickled));
        }
      }
    }
    return (WriterCommitMessage[]) found.toArray(new WriterCommitMessage[0]);
  }

  /** Runs what is left, after Python's commit has seen the messages. */
  void finish(WriterCommitMessage[] messages, Long epoch) {
    long rows = 0;
    for (WriterCommitMessage each : messages) {
      rows += each == null ? 0 : packed(each).getLong();
    }
    if (rows <= few) {
      return;
    }
    boolean more = true;
    for (int round = 0; more; round++) {
      more = run(round, rows, epoch);
    }
  }

  /** Runs the tasks of a round; false if there are none. */
  private boolean run(int round, long rows, Long epoch) {
    Map question = new HashMap();
    question.put("tasks", Long.valueOf(rows));
    question.put("round", Integer.valueOf(round));
    question.put("epoch", epoch);
    String told = Description.write(question);
    question.put("carry", Boolean.TRUE);
    int tasks = ((Number) Description.ask(options, question).get("tasks")).intValue();
    if (tasks == 0) {
      return false;
    }
    SparkSession.active()
        .range(0, tasks, 1, tasks)
        .write()
        .format(Python.NAME)
        .mode("append")
        .options(options)
        .option(TASKS, told)
        .save();
    return true;
  }
}
