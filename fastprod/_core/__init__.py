"""The engine: Cython modules that run without the GIL."""
