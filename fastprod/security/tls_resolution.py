"""From settings to `TlsSettings`: which setting says what, and which contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastprod.errors import ConfigError
from fastprod.log import Log
from fastprod.security.cipher_names import cipher_lists
from fastprod.security.java_stores import conversion, looks_like_java_store
from fastprod.security.pem_source import PemSource
from fastprod.security.tls_settings import TlsSettings

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_OLD: Final = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello")
# What may be given beside ssl_context: it cannot be read off it.
_BESIDE_CONTEXT: Final = (
    *("ssl_context", "ssl_key_password", "ssl_crl_location"),
    *("ssl_certificate_location", "ssl_key_location"),
    *("ssl_keystore_location", "ssl_keystore_type"),
    *("ssl_keystore_certificate_chain", "ssl_keystore_key"),
)
_CERTIFICATES: Final = (
    *("ssl_keystore_certificate_chain", "ssl_certificate_location", "ssl_keystore_location"),
)
_KEYS: Final = ("ssl_keystore_key", "ssl_key_location", "ssl_keystore_location")

_log = Log("fastprod.config")


def resolve_tls(values: Mapping[str, Any], spelled: Mapping[str, str]) -> TlsSettings:
    """Return what the settings say about TLS.

    Args:
        values: every setting by its name with underscores.
        spelled: how the caller spelled those that were given.

    Raises:
        ConfigError: two of them say the same thing differently, one needs another, or a store is
            one of Java's.
    """
    for store in ("truststore", "keystore"):
        _check_store(store, values, spelled)
    certificate, private_key = _client_certificate(values, spelled)
    own: dict[str, Any] = {
        "certificate": certificate,
        "private_key": private_key,
        "key_password": values["ssl_key_password"],
        "crl": pem_source(values, spelled, None, "ssl_crl_location"),
    }
    if values["ssl_context"] is not None:
        return _of_context(values, spelled, own)
    versions = _versions(values, spelled)
    ciphers, cipher_suites, narrower = cipher_lists(
        spelled.get("ssl_cipher_suites", ""), values["ssl_cipher_suites"]
    )
    versions = [each for each in versions if each in narrower]
    if not versions:
        key = spelled["ssl_cipher_suites"]
        raise ConfigError(f"{key} has no suite for the versions of TLS that are allowed", key=key)
    verifies = values["enable_ssl_certificate_verification"]
    return TlsSettings(
        ca=pem_source(values, spelled, "ssl_truststore_certificates", "ssl_truststore_location"),
        verify=verifies,
        check_host_name=verifies and values["ssl_endpoint_identification_algorithm"] == "https",
        min_version=versions[0],
        max_version=versions[-1],
        ciphers=ciphers,
        cipher_suites=cipher_suites,
        **own,
    )


def pem_source(
    values: Mapping[str, Any], spelled: Mapping[str, str], text_name: str | None, path_name: str
) -> PemSource | None:
    """Return the source that one of two settings names, or None.

    Raises:
        ConfigError: both are given.
    """
    path = values[path_name]
    text = None if text_name is None else values[text_name]
    if text_name is None or text is None:
        return None if path is None else PemSource(path, setting=spelled[path_name])
    if path is not None:
        _refuse_both(spelled[text_name], spelled[path_name])
    return PemSource(text=text, setting=spelled[text_name])


def _check_store(store: str, values: Mapping[str, Any], spelled: Mapping[str, str]) -> None:
    """Refuse Java's stores, with the command that turns them into PEM."""
    kind, password = values[f"ssl_{store}_type"], values[f"ssl_{store}_password"]
    path = values[f"ssl_{store}_location"]
    is_java = kind in ("JKS", "PKCS12") and path is not None
    if path is not None and kind != "PEM" and (is_java or looks_like_java_store(path)):
        key = spelled[f"ssl_{store}_location"]
        raise ConfigError(f"{key} = {path!r}: {conversion(path, store, kind)}", key=key)
    if password is not None:
        key = spelled[f"ssl_{store}_password"]
        if kind != "PEM" and path is not None:
            raise ConfigError(f"{key} is given: {conversion(path, store, kind)}", key=key)
        raise ConfigError(
            f"{key} is given, and a store in PEM has none; leave it out (the password of an "
            f"encrypted key is ssl.key.password)",
            key=key,
        )


def _client_certificate(
    values: Mapping[str, Any], spelled: Mapping[str, str]
) -> tuple[PemSource | None, PemSource | None]:
    certificate = _one_of(_CERTIFICATES, values, spelled)
    private_key = _one_of(_KEYS, values, spelled)
    if private_key is None and certificate is not None:
        text = certificate.text
        if text is not None and "PRIVATE KEY-----" not in text:
            key = "ssl_keystore_key"
            raise ConfigError(f"{certificate.setting} is given without {key}; give both", key=key)
        return certificate, certificate
    if certificate is None and private_key is not None:
        key = "ssl_keystore_certificate_chain"
        if private_key.path is not None:
            key = "ssl_certificate_location"
        raise ConfigError(f"{private_key.setting} is given without {key}; give both", key=key)
    return certificate, private_key


def _one_of(
    names: tuple[str, ...], values: Mapping[str, Any], spelled: Mapping[str, str]
) -> PemSource | None:
    given = [name for name in names if values[name] is not None]
    if not given:
        return None
    if len(given) > 1:
        _refuse_both(*[spelled[name] for name in given[:2]])
    name = given[0]
    if name.endswith("_location"):
        return PemSource(values[name], setting=spelled[name])
    return PemSource(text=values[name], setting=spelled[name])


def _refuse_both(one: str, other: str) -> None:
    raise ConfigError(f"{one} and {other} are both given; leave one out", key=one)


def _versions(values: Mapping[str, Any], spelled: Mapping[str, str]) -> list[str]:
    key = spelled.get("ssl_enabled_protocols", "ssl_enabled_protocols")
    listed = values["ssl_enabled_protocols"]
    shown = ",".join(map(str, listed))  # join alone would show secrets
    unknown = [each for each in listed if each not in (*_VERSIONS, *_OLD)]
    if unknown:
        raise ConfigError(f"{key} = {shown}: there is no {unknown[0]}", key=key)
    found = [each for each in _VERSIONS if each in listed]
    if not found:
        raise ConfigError(f"{key} = {shown}: TLSv1.2 or TLSv1.3 must be among them", key=key)
    if len(found) < len(set(listed)):
        _log.warning("%s: versions of TLS before 1.2 are not used", key)
    if values["ssl_protocol"] == "TLSv1.2":
        if "TLSv1.2" not in found:
            raise ConfigError(
                f"{spelled['ssl_protocol']} = TLSv1.2: {key} does not have it", key="ssl_protocol"
            )
        found = ["TLSv1.2"]
    return found


def _of_context(
    values: Mapping[str, Any], spelled: Mapping[str, str], own: Mapping[str, Any]
) -> TlsSettings:
    """What was read off a caller's context, with the certificate and the CRLs given beside it."""
    context, key = values["ssl_context"], spelled["ssl_context"]
    for name in spelled:
        if name.startswith(("ssl_", "enable_ssl_")) and name not in _BESIDE_CONTEXT:
            raise ConfigError(
                f"{spelled[name]} and {key} are both given; leave one out: {key} says it already",
                key=spelled[name],
            )
    if context.has_certificate and own["certificate"] is None:
        raise ConfigError(
            f"{key} has a client certificate, whose key cannot be read off it; give its files "
            f"beside {key}, as ssl_certificate_location, ssl_key_location and ssl_key_password",
            key=key,
        )
    if context.has_crl and own["crl"] is None:
        raise ConfigError(
            f"{key} has lists of withdrawn certificates, which cannot be read off it; give their "
            f"file beside {key}, as ssl_crl_location",
            key=key,
        )
    found: TlsSettings = context.tls
    taken: dict[str, Any] = {name: getattr(found, name) for name in TlsSettings.__match_args__}
    taken.update(own)
    return TlsSettings(**taken)
