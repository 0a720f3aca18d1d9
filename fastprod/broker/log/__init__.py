"""Partition logs: in memory or in Kafka's own files (contract B-C)."""
