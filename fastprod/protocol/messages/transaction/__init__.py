"""Messages of transactions."""
