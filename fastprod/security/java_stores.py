"""Java's key stores: how one is told, and the command that turns it into PEM."""

from __future__ import annotations

import shlex
from typing import Final

_JKS: Final = (".jks", ".keystore", ".truststore")
_PKCS12: Final = (".p12", ".pfx", ".pkcs12")


def looks_like_java_store(path: str) -> bool:
    """Whether a path ends as those of Java's stores do."""
    return path.lower().endswith((*_JKS, *_PKCS12))


def content_kind(data: bytes) -> str | None:
    """Return "JKS" or "PKCS12" if a file's content is a store of Java's, else None."""
    if data[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        return "JKS"
    # An ASN.1 sequence whose first element is the version, 3.
    if data[:1] == b"\x30" and b"\x02\x01\x03" in data[:16]:
        return "PKCS12"
    return None


def conversion(path: str, store: str, kind: str) -> str:
    """Return why a store is refused, and the command to run.

    Args:
        path: its file.
        store: "truststore" or "keystore".
        kind: "JKS", "PKCS12" or ""; by the file's name if it is "".
    """
    kind = kind or ("PKCS12" if path.lower().endswith(_PKCS12) else "JKS")
    base = path.rpartition(".")[0] or path
    old, new, between = (shlex.quote(each) for each in (path, f"{base}.pem", f"{base}.p12"))
    if store == "truststore" and kind == "JKS":
        command = f"keytool -list -rfc -keystore {old} > {new}"
    elif store == "truststore":
        command = f"openssl pkcs12 -nokeys -in {old} -out {new}"
    elif kind == "JKS":
        command = (
            f"keytool -importkeystore -srckeystore {old} -destkeystore {between} "
            f"-deststoretype PKCS12 && openssl pkcs12 -in {between} -out {new}"
        )
    else:
        command = f"openssl pkcs12 -in {old} -out {new}"
    return (
        f"a {kind} store cannot be read here; turn it into PEM: {command}; then give {new} and "
        f"ssl.{store}.type=PEM, without a password of the store"
    )
