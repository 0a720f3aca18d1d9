"""Loads files into topics without Spark: finds files, splits them, reads their columns."""
