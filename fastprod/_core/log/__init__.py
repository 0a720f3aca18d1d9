"""Checks, stamps and searches batches for the log of a broker."""
