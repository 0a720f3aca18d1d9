"""The producer's control thread: connections, metadata, producer id, metrics."""
