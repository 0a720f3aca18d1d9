"""Bytes, numbers, locks and memory: what everything else of the engine stands on."""
