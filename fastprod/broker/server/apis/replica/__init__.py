"""The APIs about the replicas of partitions."""
