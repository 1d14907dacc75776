package frazil.spark;

import java.lang.reflect.Constructor;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Iterator$;

/**
 * What Spark's own reader of a Python data source gets from Python, before it makes rows of it.
 *
 * <p>Spark's factory and its runner are reached by the names of private parts, which are the same in
 * Spark 4.1 to 4.3. Where they are not, rows are read.
 */
final class PythonColumns {
  private static final String FACTORY =
      "org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory";
  private static final String EVALUATOR =
      "org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator";
  private static final String[] PARTS = {
    "source", "pickledReadFunc", "outputSchema", "jobArtifactUUID", "sessionUUID"
  };

  private PythonColumns() {}

  static boolean areThere() {
    try {
      for (String name : PARTS) {
        Class.forName(FACTORY).getField(written(name));
      }
      runner();
      return true;
    } catch (ReflectiveOperationException error) {
      return false;
    } catch (LinkageError error) {
      return false;
    }
  }

  /** Starts a Python worker for the task; gives its batches, of one column that has all. */
  static Iterator read(PartitionReaderFactory rows, InputPartition partition) {
    UserDefinedPythonDataSource source = (UserDefinedPythonDataSource) part(rows, "source");
    MapInBatchEvaluatorFactory made =
        source.createMapInBatchEvaluatorFactory(
            (byte[]) part(rows, "pickledReadFunc"),
            "read_from_data_source",
            UserDefinedPythonDataSource$.MODULE$.readInputSchema(),
            (StructType) part(rows, "outputSchema"),
            PythonCustomMetric$.MODULE$.pythonMetrics(),
            (Option) part(rows, "jobArtifactUUID"),
            (Option) part(rows, "sessionUUID"));
    BasePythonRunner runner;
    try {
      Object offsets = new int[][] {new int[] {0}};
      runner = (BasePythonRunner) runner().newInstance(new Object[] {made.createEvaluator(), offsets});
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    byte[] pickled = ((PythonInputPartition) partition).pickedPartition();
    Object row = new GenericInternalRow(new Object[] {pickled});
    Iterator input = Iterator$.MODULE$.single(new GenericInternalRow(new Object[] {row}));
    TaskContext task = TaskContext.get();
    return runner.compute(Iterator$.MODULE$.single(input), task.partitionId(), task);
  }

  private static Object part(PartitionReaderFactory rows, String name) {
    try {
      return rows.getClass().getField(written(name)).get(rows);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The name that Scala gives to a private part that an inner class uses. */
  private static String written(String name) {
    return FACTORY.replace('.', '$') + "$$" + name;
  }

  /** Of the runner that Spark's evaluator makes: an anonymous class. */
  private static Constructor runner() throws ReflectiveOperationException {
    Class evaluator = Class.forName(EVALUATOR);
    Class found = Class.forName(EVALUATOR + "$$anon$1");
    if (!BasePythonRunner.class.isAssignableFrom(found)) {
      throw new ClassNotFoundException(found.getName());
    }
    return found.getConstructor(new Class[] {evaluator, int[][].class});
  }
}
