"""Where trusted certificates are found when no setting says, and what is said if there are none."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path

import pytest

from fastprod._core.tls.openssl import default_certificates
from fastprod.client.connections import system_certificates as module
from fastprod.client.connections.system_certificates import system_certificates
from fastprod.client.connections.tls_contexts import TlsContexts
from fastprod.errors import ConfigError
from fastprod.security.tls_settings import TlsSettings
from support.security.authority import CertificateAuthority


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system without certificates; what is put into the folder is where OpenSSL looks."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    where = (str(tmp_path / "cert.pem"), f"{tmp_path / 'none'}{os.pathsep}{tmp_path / 'certs'}")
    monkeypatch.setattr(module, "default_certificates", lambda: where)
    monkeypatch.setattr(module, "BUNDLES", (str(tmp_path / "a.crt"), str(tmp_path / "b.crt")))
    monkeypatch.setattr(module, "_of_certifi", lambda: None)
    return tmp_path


def test_openssl_looks_where_python_does() -> None:
    python = ssl.get_default_verify_paths()
    assert default_certificates() == (python.openssl_cafile, python.openssl_capath)


def test_what_openssl_finds_by_itself_is_left_to_it(nothing: Path) -> None:
    (nothing / "certs").mkdir()
    (nothing / "certs" / "0a1b2c3d.0").touch()
    assert system_certificates() is None
    (nothing / "certs" / "0a1b2c3d.0").rename(nothing / "cert.pem")
    assert system_certificates() is None


def test_else_the_usual_files_are_taken_in_their_order(nothing: Path) -> None:
    (nothing / "b.crt").touch()
    assert system_certificates() == str(nothing / "b.crt")
    (nothing / "a.crt").touch()
    assert system_certificates() == str(nothing / "a.crt")


def test_at_last_there_is_certifi(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nothing / "certifi.pem").touch()
    monkeypatch.setattr(module, "_of_certifi", lambda: str(nothing / "certifi.pem"))
    assert system_certificates() == str(nothing / "certifi.pem")


def test_certifi_is_asked_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "certifi.py").write_text("def where():\n    return 'there'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "certifi", raising=False)
    assert module._of_certifi() == "there"
    monkeypatch.delitem(sys.modules, "certifi")
    monkeypatch.setattr(sys, "path", [])
    assert module._of_certifi() is None


def test_without_any_it_is_said_what_to_do(nothing: Path) -> None:
    with pytest.raises(ConfigError, match="ssl_truststore_location is not given") as caught:
        system_certificates()
    assert str(nothing / "b.crt") in str(caught.value)
    assert caught.value.key == "ssl_truststore_location"
    with pytest.raises(ConfigError, match="ssl_truststore_location"):
        TlsContexts(TlsSettings())
    assert TlsContexts(TlsSettings(verify=False)).current() is not None


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_what_the_environment_names_is_used_alone(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (nothing / "a.crt").touch()
    monkeypatch.setenv(name, str(nothing / "typing error"))
    with pytest.raises(ConfigError, match=f"{name} = .*typing error") as caught:
        system_certificates()
    assert "set ssl_truststore_location" in str(caught.value)
    (nothing / "certs").mkdir()
    (nothing / "certs" / "0a1b2c3d.0").touch()
    monkeypatch.setenv("SSL_CERT_DIR", str(nothing / "certs"))
    assert system_certificates() is None


def test_a_context_takes_them_and_notices_when_they_change(
    nothing: Path, authority: CertificateAuthority
) -> None:
    (nothing / "a.crt").write_bytes(authority.certificate.read_bytes())
    contexts = TlsContexts(TlsSettings())
    first = contexts.current()
    assert contexts.current() is first
    (nothing / "a.crt").write_bytes(authority.certificate.read_bytes() * 2)
    assert contexts.current() is not first
    (nothing / "b.crt").write_text("nothing in PEM")
    (nothing / "a.crt").unlink()
    with pytest.raises(ConfigError, match=r"the system's certificates = .*b\.crt"):
        TlsContexts(TlsSettings())


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "authority")
