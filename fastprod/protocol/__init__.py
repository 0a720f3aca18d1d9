"""Kafka's messages, for client and broker: bytes to objects and back."""
