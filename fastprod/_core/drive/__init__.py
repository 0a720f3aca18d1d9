"""Callers that wait do the work of the I/O thread."""
