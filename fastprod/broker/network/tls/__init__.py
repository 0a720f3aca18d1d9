"""TLS as the broker sees it: its certificate, its clients' names, and what went wrong."""
