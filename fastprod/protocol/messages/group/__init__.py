"""Requests and responses about consumer groups, one API a file."""
