"""Where the system keeps the certificates that it trusts."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

from fastprod._core.tls.openssl import default_certificates
from fastprod.errors import ConfigError

BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat, Fedora, Amazon Linux
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, FreeBSD, Alpine
)
"""Files that systems have, whatever OpenSSL was built for."""

_FILE: Final = "SSL_CERT_FILE"
_DIRECTORY: Final = "SSL_CERT_DIR"
# What OpenSSL reads of a directory: the hash of a subject, and a number.
_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def system_certificates() -> str | None:
    """Return a file of trusted certificates in PEM; None: OpenSSL finds the system's by itself.

    A Python that was built for another system has an OpenSSL that looks where this one has
    nothing. Then it is one of `BUNDLES`, or that of the package certifi if it is installed. What
    the environment names (SSL_CERT_FILE, SSL_CERT_DIR) is used alone.

    Raises:
        ConfigError: there are none, or none where the environment says.
        ImportError: there is no OpenSSL 1.1.1 or later.

    Blocks for the disk.
    """
    file, directory = default_certificates()
    named = [name for name in (_FILE, _DIRECTORY) if name in os.environ]
    file, directory = os.environ.get(_FILE, file), os.environ.get(_DIRECTORY, directory)
    if Path(file).is_file() or any(map(_has_certificates, directory.split(os.pathsep))):
        return None
    if named:
        given = " and ".join(f"{name} = {os.environ[name]!r}" for name in named)
        raise ConfigError(
            f"there are no certificates where the environment says, {given}: correct it, or set "
            f"ssl_truststore_location",
            key="ssl_truststore_location",
        )
    for bundle in (*BUNDLES, _of_certifi()):
        if bundle is not None and Path(bundle).is_file():
            return bundle
    looked = ", ".join((file, directory, *BUNDLES))
    raise ConfigError(
        f"ssl_truststore_location is not given, and this system has no certificates that it "
        f"trusts: there are none in {looked}; set it to the brokers' authority, or install "
        f"ca-certificates or the package certifi",
        key="ssl_truststore_location",
    )


def _has_certificates(directory: str) -> bool:
    try:
        return any(_HASHED.fullmatch(each.name) for each in Path(directory).iterdir())
    except OSError:
        return False


def _of_certifi() -> str | None:
    if importlib.util.find_spec("certifi") is None:
        return None
    found: str = importlib.import_module("certifi").where()
    return found
