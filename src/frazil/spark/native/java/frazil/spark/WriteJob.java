package frazil.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The work that is left after the rows of a write have been staged, if they are many.
 *
 * <p>The Python side says how many tasks it is. Spark runs them as a write of their numbers: its
 * tasks make the chunks, its commit is that to the repository.
 */
final class WriteJob {
  /** The option of a write of task numbers: its tasks make chunks of rows that were staged. */
  static final String TASKS = "frazilTasks";

  private final Map options;
  private final long mostRows;

  WriteJob(Map options, long mostRows) {
    this.options = options;
    this.mostRows = mostRows;
  }

  /** The messages of Python's tasks in ours. */
  static WriterCommitMessage[] unwrap(WriterCommitMessage[] messages) {
    List found = new ArrayList();
    for (WriterCommitMessage each : messages) {
      if (each != null) {
        found.addAll(((Staged) each).messages);
      }
    }
    return (WriterCommitMessage[]) found.toArray(new WriterCommitMessage[0]);
  }

  /** Runs what is left, after Python's commit has seen the messages. */
  void finish(WriterCommitMessage[] messages, Long epoch) {
    long rows = 0;
    for (WriterCommitMessage each : messages) {
      rows += each == null ? 0 : ((Staged) each).rows;
    }
    if (rows <= mostRows) {
      return; // the commit has done everything
    }
    Map question = new HashMap();
    question.put("tasks", Boolean.TRUE);
    question.put("epoch", epoch);
    String told = Description.write(question);
    question.put("carry", Boolean.TRUE);
    int tasks = ((Number) Description.ask(options, question).get("tasks")).intValue();
    SparkSession.active()
        .range(0, tasks, 1, tasks)
        .write()
        .format(Python.NAME)
        .mode("append")
        .options(options)
        .option(TASKS, told)
        .save();
  }

  /** What a task has staged. */
  static final class Staged implements WriterCommitMessage {
    final List messages; // of Python
    final long rows;

    Staged(List messages, long rows) {
      this.messages = messages;
      this.rows = rows;
    }
  }
}
