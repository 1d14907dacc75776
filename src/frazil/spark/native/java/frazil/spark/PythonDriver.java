package frazil.spark;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.security.SecureRandom;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import py4j.GatewayServer;

/**
 * A Python process that runs jobs on this Spark, for procedures that need the cluster.
 *
 * <p>It reaches this JVM as the driver of a Python application does: through a gateway on the
 * loopback interface, with a secret that only the process is told. It ends when its stdin does.
 */
final class PythonDriver {
  private static final String MODULE = "frazil.spark.actions.cluster_procedures";
  private static final String[] INHERITED = {
    "spark.jobGroup.id", "spark.job.description", "spark.job.tags", "spark.scheduler.pool"
  };
  private static final int PATIENCE_S = 10;

  private PythonDriver() {}

  /** What the process may ask this JVM for. */
  public static final class Entry {
    private final SparkSession session;
    private final String question;
    private final Map properties = new HashMap();
    private volatile String answer;

    Entry(SparkSession session, String question, String tag) {
      this.session = session;
      this.question = question;
      for (String name : INHERITED) {
        String value = session.sparkContext().getLocalProperty(name);
        if (value != null) {
          properties.put(name, value);
        }
      }
      String tags = (String) properties.get("spark.job.tags");
      properties.put("spark.job.tags", tags == null || tags.isEmpty() ? tag : tags + "," + tag);
    }

    public SparkSession session() {
      return session;
    }

    public String question() {
      return question;
    }

    /** Properties of the statement, for the jobs that belong to it. */
    public Map properties() {
      return properties;
    }

    public void answer(String json) {
      answer = json;
    }
  }

  /** Asks a question that takes jobs. If this thread is interrupted, process and jobs end. */
  static Map ask(Map question) {
    SparkSession session = SparkSession.active();
    String secret = random();
    String tag = "frazil-" + random();
    Entry entry = new Entry(session, Description.write(question), tag);
    GatewayServer gateway =
        new GatewayServer.GatewayServerBuilder(entry)
            .authToken(secret)
            .javaPort(0)
            .javaAddress(InetAddress.getLoopbackAddress())
            .build();
    gateway.start();
    Process process = null;
    try {
      process = start(session, gateway.getListeningPort(), secret);
      int code = process.waitFor();
      if (entry.answer == null) {
        throw new IllegalStateException(
            "the Python process of the procedure ended with code "
                + code
                + " and without an answer; its messages are in the driver's log");
      }
      return Description.parse(entry.answer);
    } catch (IOException error) {
      throw new IllegalStateException("no Python process for the procedure: " + error, error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("the procedure was interrupted", error);
    } finally {
      if (process != null && process.isAlive()) {
        end(process, session.sparkContext(), tag);
      }
      gateway.shutdown();
    }
  }

  private static Process start(SparkSession session, int port, String secret) throws IOException {
    PythonFunction python =
        ((org.apache.spark.sql.classic.SparkSession) session)
            .sessionState()
            .dataSourceManager()
            .lookupDataSource(Python.NAME)
            .dataSourceCls();
    ProcessBuilder builder =
        new ProcessBuilder(new String[] {python.pythonExec(), "-m", MODULE});
    Map environment = builder.environment();
    environment.putAll(python.envVars());
    String path = PythonUtils.sparkPythonPath();
    String more = (String) environment.get("PYTHONPATH");
    environment.put("PYTHONPATH", more == null ? path : more + File.pathSeparator + path);
    environment.put("PYSPARK_PYTHON", python.pythonExec());
    environment.put("PYSPARK_GATEWAY_PORT", String.valueOf(port));
    environment.put("PYSPARK_GATEWAY_SECRET", secret);
    builder.redirectOutput(ProcessBuilder.Redirect.INHERIT);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    return builder.start();
  }

  /** Ends a process gently, so that it may clean up, and then for good; no job goes on. */
  private static void end(Process process, SparkContext context, String tag) {
    context.cancelJobsWithTag(tag);
    process.destroy();
    boolean ended = false;
    boolean interrupted = Thread.interrupted();
    try {
      ended = process.waitFor(PATIENCE_S, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      interrupted = true;
    }
    if (!ended) {
      process.destroyForcibly();
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static String random() {
    byte[] bytes = new byte[32];
    new SecureRandom().nextBytes(bytes);
    StringBuilder text = new StringBuilder();
    for (byte each : bytes) {
      text.append(Character.forDigit((each >> 4) & 15, 16)).append(Character.forDigit(each & 15, 16));
    }
    return text.toString();
  }
}
