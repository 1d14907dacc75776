package frazil.spark;

import org.apache.spark.util.Utils$;

/** A sum of bytes. */
public class SizeMetric extends CountMetric {
  public SizeMetric() {}

  SizeMetric(String name, String description) {
    super(name, description);
  }

  String written(long sum) {
    return Utils$.MODULE$.bytesToString(sum);
  }
}
