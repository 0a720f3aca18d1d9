"""Connections of commands to clusters, and topics and brokers of their own."""
