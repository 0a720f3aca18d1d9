"""What the engine does between a transaction and the next, and for the caller that ends one."""
