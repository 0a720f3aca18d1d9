"""Handles requests: the APIs, and the logs and operations that they work on."""
