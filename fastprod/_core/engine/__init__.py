"""The I/O thread of a producer, and all that it owns."""
