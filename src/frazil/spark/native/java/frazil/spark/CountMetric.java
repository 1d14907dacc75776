package frazil.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;

/**
 * The sum of what all tasks counted. Spark's UI makes one of these by the name of its class, which
 * therefore is public and needs no arguments.
 */
public class CountMetric implements CustomMetric {
  private final String name;
  private final String description;

  public CountMetric() {
    this("", "");
  }

  CountMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  public String name() {
    return name;
  }

  public String description() {
    return description;
  }

  public String aggregateTaskMetrics(long[] values) {
    long sum = 0;
    for (long value : values) {
      sum += Math.max(0, value); // -1 of a task that said nothing
    }
    return written(sum);
  }

  String written(long sum) {
    return String.format("%,d", new Object[] {Long.valueOf(sum)});
  }
}
