package frazil.spark;

import org.apache.spark.util.Utils$;

/** A sum of microseconds. */
public class TimeMetric extends CountMetric {
  public TimeMetric() {}

  TimeMetric(String name, String description) {
    super(name, description);
  }

  String written(long sum) {
    return Utils$.MODULE$.msDurationToString(sum / 1000);
  }
}
