"""ServerCertificate: which files can be used, and when they are read again."""

from __future__ import annotations

import logging
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fastprod.broker.network.acceptor import Listener
from fastprod.broker.network.admission import Admission
from fastprod.broker.network.tls.server_certificate import CertificateSources, ServerCertificate
from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource
from support.broker import certificates
from support.broker.certificates import Certificate
from support.broker.sockets import EchoWorld, ask

SECRET = "key-password"


def sources(made: Certificate, **more: Any) -> CertificateSources:
    return CertificateSources(PemSource(str(made.certfile)), PemSource(str(made.keyfile)), **more)


def two(tmp_path: Path) -> tuple[Certificate, Certificate]:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(certificates.make(tmp_path / name, name))
    return made[0], made[1]


def shown(world: EchoWorld) -> bytes | None:
    """The certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(world.connect()) as client:
        ask(client)
        return client.getpeercert(True)


def der(made: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(made.certfile.read_text())


def test_files_that_change_are_taken_up_by_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B-D6.5: who is connected stays so; and what cannot be used changes nothing."""
    one, other = two(tmp_path)
    expected = der(one), der(other)
    certificate = ServerCertificate(sources(one))
    with EchoWorld(Listener("SSL", admission=Admission(certificate))) as world:
        early = one.client_context().wrap_socket(world.connect(), server_hostname="localhost")
        world.clients.append(early)
        ask(early)
        assert shown(world) == expected[0]
        with caplog.at_level(logging.WARNING):
            shutil.copy(other.certfile, one.certfile)
            assert [shown(world), shown(world)] == [expected[0]] * 2
        assert caplog.text.count("the certificate stays as it was") == 1
        shutil.copy(other.keyfile, one.keyfile)
        assert shown(world) == expected[1]
        one.certfile.unlink()
        assert shown(world) == expected[1]
        ask(early)


def test_another_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    """B-D6.5."""
    one, other = two(tmp_path)
    certificate = ServerCertificate(sources(one))
    with EchoWorld(Listener("SSL", admission=Admission(certificate))) as world:
        assert shown(world) == der(one)
        with pytest.raises(ConfigError, match="cannot be used"):
            certificate.replace(PemSource(str(other.certfile)), PemSource(str(one.keyfile)), None)
        assert shown(world) == der(one)
        certificate.replace(PemSource(str(other.certfile)), PemSource(str(other.keyfile)), None)
        assert shown(world) == der(other)
        assert certificate.pem == other.certfile.read_text()


def test_a_key_may_have_a_password(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    private = serialization.load_pem_private_key(made.keyfile.read_bytes(), None)
    made.keyfile.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRET.encode()),
        )
    )
    given = sources(made, key_password=SECRET)
    assert ServerCertificate(given).context().server_side
    assert SECRET not in repr(given)
    for password in (None, "wrong"):
        with pytest.raises(ConfigError, match="cannot be used") as caught:
            ServerCertificate(sources(made, key_password=password))
        assert "wrong" not in str(caught.value)


def test_what_clients_show_is_one_of_three(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    with pytest.raises(ConfigError, match="ssl_client_auth is 'maybe'; it can be none, requested"):
        ServerCertificate(sources(made, client_auth="maybe"))


def test_an_error_names_the_file_that_cannot_be_used(tmp_path: Path) -> None:
    """B-D6.5."""
    one = certificates.make(tmp_path)
    text = one.certfile.read_text()
    bad = tmp_path / "ca.pem"
    bad.write_text(text.replace("M", "N", 20))
    for given, setting, more in (
        (sources(one, ca=PemSource(str(bad)), client_auth="required"), "ssl_cafile", ""),
        (sources(one)._replace(certificate=PemSource(str(bad))), "ssl_certfile", " with the key "),
    ):
        with pytest.raises(ConfigError, match=f"^{setting} {bad}{more}.*cannot be used") as caught:
            ServerCertificate(given)
        assert caught.value.key == setting
