"""Kafka's requests and responses, one API a file."""
