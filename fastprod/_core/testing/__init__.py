"""What tests and benchmarks call of the engine, and Python does not see otherwise."""
