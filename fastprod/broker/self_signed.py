"""A certificate that a broker makes for itself, for tests: whoever has its text can trust it."""

from __future__ import annotations

import ipaddress
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from fastprod.errors import ConfigError

DAYS: Final = 30
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_TIMEOUT_S: Final = 30.0
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")


class SelfSigned(NamedTuple):
    """Two texts in PEM; clients trust the first."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        """Without the key."""
        return "SelfSigned()"


def make_self_signed(hosts: Collection[str] = ()) -> SelfSigned:
    """Make a certificate for this machine and for some hosts, by the program `openssl`.

    Args:
        hosts: names or addresses by which clients reach the broker, besides localhost.

    Raises:
        ConfigError: there is no such program, or it fails.

    Blocks: for some ten milliseconds.
    """
    names = dict.fromkeys((*_LOCAL, *(each for each in hosts if each not in _ANY_ADDRESS)))
    with tempfile.TemporaryDirectory(prefix="fastprod-broker-") as folder:
        certfile, keyfile = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        _run(
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", str(DAYS), "-subj", "/CN=fastprod broker"),
            *("-addext", "subjectAltName=" + ",".join(map(_alternative, names))),
            *("-keyout", str(keyfile), "-out", str(certfile)),
        )
        return SelfSigned(certfile.read_text(), keyfile.read_text())


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"no certificate can be made, the program openssl does not run: {error}; give "
            f"ssl_certfile",
            key="tls",
        ) from error
    if done.returncode != 0:
        raise ConfigError(
            f"no certificate can be made, openssl says: {done.stderr.strip()[-500:]}; give "
            f"ssl_certfile",
            key="tls",
        )


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"
