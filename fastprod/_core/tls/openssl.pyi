"""Where OpenSSL was found, and where it looks for certificates."""

def describe() -> str:
    """Return version and file of the OpenSSL in use, finding it first: "OpenSSL 3.0.19 ... in ...".

    The functions are those of Python's own ``ssl`` module, which is not imported; else those of
    the system's library. Any thread.

    Raises:
        ImportError: there is no OpenSSL 1.1.1 or later; the text says where it was looked for.
    """

def default_certificates() -> tuple[str, str]:
    """Return the file and the directory of certificates that OpenSSL was built to look in.

    The environment (SSL_CERT_FILE, SSL_CERT_DIR) is not looked at. Any thread.

    Raises:
        ImportError: as `describe`.
    """
