"""Compaction: of the records of a key, the log keeps the last one (B-C4.6)."""
