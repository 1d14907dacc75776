"""`python -m benchmarks.spark`: the same as benchmarks/spark/run.py."""

from benchmarks.spark.run import main

if __name__ == "__main__":
    main()
