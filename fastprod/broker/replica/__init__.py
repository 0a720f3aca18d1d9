"""Partitions with several replicas: a log for each, and what keeps them alike."""
