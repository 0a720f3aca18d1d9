"""Why a connection by TLS failed, in words that say what to change."""

from __future__ import annotations

from typing import Final

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.security.tls_settings import TlsSettings

# OpenSSL's numbers: X509_V_ERR_* and SSL_R_*; an alert's is 1000 + its number (RFC 8446, 6).
_UNKNOWN_ISSUER: Final = frozenset({2, 7, 18, 19, 20, 21, 27})
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_ADDRESS: Final = 64
_WRONG_NAME: Final = frozenset({62, _WRONG_ADDRESS})
_REVOKED: Final = 23
_NO_CRL: Final = frozenset({3, 12})

_NO_TLS: Final = frozenset({156, 267})
_NO_VERSION: Final = frozenset({258, 266, 396, 1070})
_NO_CIPHER: Final = frozenset({181, 193, 1040, 1071})
_CERTIFICATE_WANTED: Final = 1116
_CERTIFICATE_ALERTS: Final = frozenset({1042, 1043, 1044, 1045, 1046, 1048, 1049, 1051})
_DAMAGED: Final = frozenset({281, 1020})
"""A record that was changed on its way: nobody's fault, and worth another try."""


def is_misconfiguration(event: ControlEvent) -> bool:
    """Whether a failure of TLS will come again until somebody changes something."""
    return event.tls_reason not in _DAMAGED


def tls_reason(where: str, host: str, event: ControlEvent, settings: TlsSettings) -> str:
    """Return why TLS with a broker failed.

    Args:
        where: host:port of the broker.
        host: whom the certificate must name.
        event: an ON_DISCONNECTED event with the reason CLOSE_TLS.
        settings: those in force; no secret of theirs is told.
    """
    told = _told(event)
    why = told.get("reason", "")
    if event.tls_verify:
        why = f"its certificate was refused: {_refused_certificate(host, event, settings, told)}"
    elif event.tls_reason in _NO_TLS:
        why = (
            "it does not speak TLS: is its listener PLAINTEXT? Set security_protocol, or the port, "
            "to what the listener has"
        )
    elif event.tls_reason in _NO_VERSION:
        why = (
            f"no version of TLS is shared ({why}): we take {settings.min_version} to "
            f"{settings.max_version}; set ssl_enabled_protocols to what the broker has"
        )
    elif event.tls_reason in _CERTIFICATE_ALERTS or event.tls_reason == _CERTIFICATE_WANTED:
        why = _refused_client(event, settings, why)
    elif event.tls_reason in _NO_CIPHER:
        why = (
            f"no cipher is shared, or it refused our certificate ({why}): look at "
            f"ssl_cipher_suites{'' if settings.certificate else ', and set ssl_keystore_location'}"
        )
    return f"TLS with broker {where} failed: {why or 'OpenSSL gave no reason'}"


def _told(event: ControlEvent) -> dict[str, str]:
    text = b"" if event.data is None else event.data
    lines = text.decode("ascii", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _refused_certificate(
    host: str, event: ControlEvent, settings: TlsSettings, told: dict[str, str]
) -> str:
    subject, issuer = told.get("subject", "?"), told.get("issuer", "?")
    if event.tls_verify in _UNKNOWN_ISSUER:
        trusted = "the system's certificates"
        change = "set ssl_truststore_location (or ssl_truststore_certificates) to its authority's"
        if settings.ca is not None:
            trusted = settings.ca.setting
            if settings.ca.path is not None:
                trusted += f" = {settings.ca.path!r}"
            change = "put its authority's certificate there"
        by = "itself" if subject == issuer else issuer
        return f"{subject} is signed by {by}, which is not trusted by {trusted}: {change}"
    if event.tls_verify == _EXPIRED:
        ended = told.get("not_after", "?")
        return f"{subject} expired on {ended}: the broker needs a new one (or is our clock wrong?)"
    if event.tls_verify == _NOT_YET_VALID:
        begins = told.get("not_before", "?")
        return f"{subject} is not valid before {begins}: is our clock wrong, or the broker's?"
    if event.tls_verify in _WRONG_NAME:
        names = told.get("names", "") or "nobody"
        if event.tls_verify == _WRONG_ADDRESS and host in names.split(", "):
            return (
                f"it names {host!r}, but only as if that were a host's name (in its CN, or as a "
                f"DNS name), which does not count for an address: the broker needs a certificate "
                f"with {host} as an IP address among its subjectAltName (keytool: -ext "
                f"SAN=ip:{host}), or connect by a host's name that it has"
            )
        return (
            f"it is for {names}, and not for {host!r}: connect by one of its names "
            f"(bootstrap_servers, the broker's advertised.listeners), or set "
            f"ssl_endpoint_identification_algorithm to 'none', which trusts any host"
        )
    if event.tls_verify == _REVOKED:
        return f"{subject} was revoked by {issuer}: the broker needs a new one"
    if event.tls_verify in _NO_CRL:
        which = "ssl_crl_location" if settings.crl is None else settings.crl.setting
        verified = told.get("verified", "no list")
        return f"{which} has no list of {issuer} that is in force ({verified}): renew it"
    return f"{subject}, issued by {issuer}: {told.get('verified', '')}"


def _refused_client(event: ControlEvent, settings: TlsSettings, why: str) -> str:
    if settings.certificate is None:
        return (
            f"it wants a client's certificate ({why}): set ssl_keystore_location (or "
            f"ssl_keystore_certificate_chain and ssl_keystore_key)"
        )
    which = settings.certificate.setting
    if settings.certificate.path is not None:
        which += f" = {settings.certificate.path!r}"
    return (
        f"it refused our certificate ({why}): is {which} signed by whom the broker's truststore "
        f"holds, and still valid?"
    )
