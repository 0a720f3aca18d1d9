"""Kafka's requests and responses as the broker reads and writes them, one API a file."""
