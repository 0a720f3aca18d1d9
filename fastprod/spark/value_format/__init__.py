"""Values and keys made of typed columns in Spark's workers: JSON, Avro, Protobuf or bytes as is."""
