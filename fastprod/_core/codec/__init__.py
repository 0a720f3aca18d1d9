"""Compression by the C code of other packages."""
