"""Encodes typed columns as values and keys in Spark's workers: JSON, Avro, Protobuf or bytes."""
