"""TLS, SASL and proxies as settings and as arithmetic: what needs no connection."""
