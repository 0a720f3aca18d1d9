"""TLS under the channels, by the OpenSSL that Python itself uses."""
