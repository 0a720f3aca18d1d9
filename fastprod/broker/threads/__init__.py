"""Clocks, waits and threads of the broker."""
