"""Segments of a partition's log, in files or in memory, and the files that they share."""
