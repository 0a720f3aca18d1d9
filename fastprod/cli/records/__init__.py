"""Records that commands make, and records read back."""
