"""Messages about the replicas of partitions."""
