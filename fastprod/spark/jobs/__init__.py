"""The jobs of `fastprod spark-load` and `fastprod spark-stream`."""
