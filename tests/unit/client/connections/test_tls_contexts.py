"""Contexts from settings: what cannot be used is named, and files that change are taken up."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from fastprod.client.connections.tls_contexts import TlsContexts, server_name
from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource
from fastprod.security.secret import Secret
from fastprod.security.tls_settings import TlsSettings
from support.security.authority import CertificateAuthority


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "authority")


def _source(path: Path, setting: str) -> PemSource:
    return PemSource(str(path), setting=setting)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("b.example", "b.example"),
        ("10.0.0.1", "10.0.0.1"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
    ],
)
def test_names_are_ascii(host: str, name: str) -> None:
    assert server_name(host) == name


def test_a_name_that_is_none_is_left_as_it_is() -> None:
    assert server_name("\u00fc" * 70) == "\u00fc" * 70


def test_a_context_stays_while_its_files_do(authority: CertificateAuthority) -> None:
    contexts = TlsContexts(TlsSettings(ca=_source(authority.certificate, "ssl.ca.location")))
    assert contexts.current() is contexts.current()


def test_text_needs_no_file(authority: CertificateAuthority) -> None:
    contexts = TlsContexts(TlsSettings(ca=PemSource(text=authority.certificate.read_text())))
    assert contexts.current() is contexts.current()


def test_a_directory_of_certificates_is_looked_into(authority: CertificateAuthority) -> None:
    folder = authority.certificate.parent
    contexts = TlsContexts(TlsSettings(ca=_source(folder, "ssl_truststore_location")))
    assert not contexts.current().server_side


def test_a_directory_without_a_certificate_is_refused(tmp_path: Path) -> None:
    """It would trust nobody."""
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(ConfigError, match=r"ssl_truststore_location = .*: holds no PEM"):
        TlsContexts(TlsSettings(ca=_source(tmp_path, "ssl_truststore_location")))


def test_a_file_that_becomes_an_empty_directory_changes_nothing(
    authority: CertificateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store.pem"
    shutil.copy(authority.certificate, store)
    contexts = TlsContexts(TlsSettings(ca=_source(store, "ssl_truststore_location")))
    first = contexts.current()
    store.unlink()
    store.mkdir()
    assert contexts.current() is first
    assert caplog.text.count("those before are kept") == 1
    assert "ssl_truststore_location" in caplog.text
    shutil.copy(authority.certificate, store / "a.pem")
    assert contexts.current() is not first


def test_files_that_changed_are_taken_up_once_they_are_whole(
    authority: CertificateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store.pem"
    shutil.copy(authority.issue("first").both, store)
    settings = TlsSettings(
        certificate=_source(store, "ssl_keystore_location"),
        private_key=_source(store, "ssl_keystore_location"),
    )
    contexts = TlsContexts(settings)
    first = contexts.current()
    whole = authority.issue("second").both.read_bytes()
    with caplog.at_level(logging.INFO):
        store.write_bytes(whole[: len(whole) // 2])
        assert contexts.current() is first
        assert contexts.current() is first
        assert caplog.text.count("those before are kept") == 1
        assert "ssl_keystore_location" in caplog.text
        store.unlink()
        assert contexts.current() is first
        store.write_bytes(whole)
        second = contexts.current()
    assert second is not first
    assert contexts.current() is second
    assert "certificates have changed" in caplog.text


def test_a_key_of_another_certificate_names_the_setting(authority: CertificateAuthority) -> None:
    one, other = authority.issue("one"), authority.issue("other")
    settings = TlsSettings(
        certificate=_source(one.certificate, "ssl.certificate.location"),
        private_key=_source(other.key, "ssl.key.location"),
    )
    with pytest.raises(ConfigError, match=r"ssl\.key\.location = '.*does not belong") as caught:
        TlsContexts(settings)
    assert caught.value.key == "ssl.key.location"


def test_a_wrong_password_is_not_told(authority: CertificateAuthority) -> None:
    locked = authority.issue("locked", password="open sesame")
    settings = TlsSettings(
        certificate=_source(locked.certificate, "ssl_keystore_location"),
        private_key=_source(locked.key, "ssl_keystore_location"),
        key_password=Secret("guessed"),
    )
    with pytest.raises(ConfigError, match=r"^ssl_key_password: .*password") as caught:
        TlsContexts(settings)
    assert "guessed" not in str(caught.value)


@pytest.mark.parametrize("part", ["ciphers", "cipher_suites"])
def test_a_cipher_that_stands_elsewhere_is_not_told(part: str) -> None:
    """P-B.8: what a reference leads to may be another thing than was meant."""
    settings: dict[str, Any] = {part: Secret("HUSH")}
    with pytest.raises(ConfigError, match=r"^ssl_cipher_suites: .*\[hidden\]") as told:
        TlsContexts(TlsSettings(**settings))
    assert "HUSH" not in str(told.value)
    known = "ECDHE-RSA-AES128-GCM-SHA256" if part == "ciphers" else "TLS_AES_128_GCM_SHA256"
    settings[part] = Secret(known)
    TlsContexts(TlsSettings(**settings))


def test_an_unknown_cipher_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"^ssl_cipher_suites: .*'NONE-SUCH'"):
        TlsContexts(TlsSettings(ciphers="NONE-SUCH"))
