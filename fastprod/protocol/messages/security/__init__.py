"""Messages about who may come in, and who may do what."""
