"""What `metrics()` returns: the engine's and the client's counters, sampled over time."""
