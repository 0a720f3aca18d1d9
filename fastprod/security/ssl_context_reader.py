"""ContextSettings: what can be read off a caller's `ssl.SSLContext`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord
from fastprod.security.pem_source import PemSource
from fastprod.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    import ssl

# Where CPython keeps its SSL_CTX: right behind the object's head. Looked at in these only.
_KNOWN_LAYOUTS: Final = ((3, 11), (3, 12), (3, 13))


class ContextSettings(FrozenRecord):
    """What was read off an `ssl.SSLContext`; plain data, which pickles.

    Attributes:
        tls: what it says; without client certificate and CRLs.
        has_certificate: whether a client certificate was loaded into it, which cannot be read.
        has_crl: whether lists of withdrawn certificates were.
    """

    tls: TlsSettings
    has_certificate: bool = False
    has_crl: bool = False


def read_ssl_context(key: str, given: Any) -> ContextSettings | None:
    """Return what a context says; later changes to it are not seen.

    Read off it are verify_mode, check_hostname, the lowest and highest version (and the options
    against single ones), the CA certificates, the ciphers with their security level, and the flags
    VERIFY_X509_STRICT and VERIFY_X509_PARTIAL_CHAIN.

    Refused by name, since it would be lost: a subclass, a server's context, a directory of CA
    certificates (Python does not tell of it: a context that verifies and has no CA certificate is
    refused, which `ssl.create_default_context()` is on systems that keep them in a directory), a
    CA certificate that is none, CRLs and a client certificate that are not given as settings too,
    a key log, an SNI callback, and hostname_checks_common_name=False.

    Not seen, and lost, as Python shows no trace of it: a PSK callback, ALPN, curves, a message
    callback, options that are not about versions.  A client certificate is seen in CPython 3.11 to
    3.13; in others it is lost, and the broker's refusal says so.

    Args:
        key: the setting, for errors.
        given: an `ssl.SSLContext`, or a function without arguments that returns one.

    Raises:
        ConfigError: it is something else, or has something that cannot be carried over.
    """
    if given is None or isinstance(given, ContextSettings):
        return given
    import ssl  # noqa: PLC0415

    context = given
    if callable(given) and not isinstance(given, ssl.SSLContext):
        try:
            context = given()
        except Exception as error:
            raise ConfigError(
                f"{key}: the function failed ({type(error).__name__}: {error})", key=key
            ) from error
    if not isinstance(context, ssl.SSLContext):
        _refuse(key, f"must be an ssl.SSLContext, not {type(context).__name__}")
    _check_kind(key, context)
    verifies = context.verify_mode != ssl.CERT_NONE
    low, high = _versions(key, context)
    ciphers = context.get_ciphers()
    level = f"@SECLEVEL={context.security_level}"
    old = [each["name"] for each in ciphers if each["protocol"] != "TLSv1.3"]
    new = [each["name"] for each in ciphers if each["protocol"] == "TLSv1.3"]
    tls = TlsSettings(
        ca=_ca(key, context) if verifies else None,
        verify=verifies,
        check_host_name=context.check_hostname,
        min_version=low,
        max_version=high,
        ciphers=":".join([*old, level]) if old else None,
        cipher_suites=":".join(new) or None,
        strict=bool(context.verify_flags & ssl.VERIFY_X509_STRICT),
        partial_chain=bool(context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN),
    )
    crl_flags = ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_CRL_CHECK_CHAIN
    has_crl = bool(context.verify_flags & crl_flags or context.cert_store_stats()["crl"])
    return ContextSettings(tls, _has_certificate(context), has_crl)


def _check_kind(key: str, context: ssl.SSLContext) -> None:
    import ssl  # noqa: PLC0415

    if type(context) is not ssl.SSLContext:
        name = type(context).__qualname__
        _refuse(
            key, f"is of the subclass {name}, which may check what we cannot; give its settings"
        )
    if context.protocol == ssl.PROTOCOL_TLS_SERVER:
        _refuse(key, "is a server's; make it with ssl.PROTOCOL_TLS_CLIENT")
    if context.keylog_filename is not None:
        _refuse(key, "has a keylog_filename, and keys are not logged here; unset SSLKEYLOGFILE")
    if context.sni_callback is not None:
        _refuse(key, "has an sni_callback, which only a server calls; leave it out")
    if not context.hostname_checks_common_name:
        _refuse(key, "has hostname_checks_common_name=False, which cannot be kept; leave it out")


def _versions(key: str, context: ssl.SSLContext) -> tuple[str, str]:
    import ssl  # noqa: PLC0415

    version = ssl.TLSVersion
    low, high = context.minimum_version, context.maximum_version
    if high == version.MAXIMUM_SUPPORTED:
        high = version.TLSv1_3
    allowed = [
        name
        for name, each, against in (
            ("TLSv1.2", version.TLSv1_2, ssl.OP_NO_TLSv1_2),
            ("TLSv1.3", version.TLSv1_3, ssl.OP_NO_TLSv1_3),
        )
        if low <= each <= high and not context.options & against
    ]
    if not allowed:
        _refuse(key, "allows neither TLS 1.2 nor TLS 1.3; raise its maximum_version")
    return allowed[0], allowed[-1]


def _ca(key: str, context: ssl.SSLContext) -> PemSource:
    import ssl  # noqa: PLC0415

    certificates = context.get_ca_certs(binary_form=True)
    count = context.cert_store_stats()["x509"]
    if not certificates:
        _refuse(
            key,
            "has no CA certificate that can be read (those of a directory cannot); give it a file "
            "by load_verify_locations(cafile=...), or leave the context out: the system's own "
            "certificates are trusted then",
        )
    if len(certificates) != count:
        _refuse(
            key,
            f"trusts {count - len(certificates)} certificates that are none of a CA, which Python "
            f"does not hand out; give them all as ssl_truststore_certificates, without a context",
        )
    pem = "".join(ssl.DER_cert_to_PEM_cert(each) for each in certificates)
    return PemSource(text=pem, setting=key)


def _has_certificate(context: ssl.SSLContext) -> bool:
    """Whether load_cert_chain was called; Python has no way to ask, OpenSSL has."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in _KNOWN_LAYOUTS:
        return False
    import _ssl  # noqa: PLC0415
    import ctypes  # noqa: PLC0415

    try:
        ask = ctypes.CDLL(_ssl.__file__).SSL_CTX_get0_certificate
    except (AttributeError, OSError):  # Python was built with OpenSSL inside
        return False
    ask.argtypes, ask.restype = [ctypes.c_void_p], ctypes.c_void_p
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    return bool(ask(pointer))


def _refuse(key: str, why: str) -> NoReturn:
    raise ConfigError(f"{key} {why}", key=key)
