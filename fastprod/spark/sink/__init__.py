"""The sink: what Spark calls on the driver and in its workers."""
