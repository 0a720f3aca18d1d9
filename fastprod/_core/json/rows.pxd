"""JSON texts of an Arrow batch's rows, as Spark's to_json writes them, without the GIL."""
