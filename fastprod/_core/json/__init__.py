"""Rows of Arrow columns as JSON texts."""
