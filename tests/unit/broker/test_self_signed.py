"""A broker's own certificate, by the program openssl."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from fastprod.broker import Broker, self_signed
from fastprod.broker.self_signed import make_self_signed
from fastprod.errors import ConfigError


def test_a_client_trusts_it_for_this_machine() -> None:
    with Broker(tls=True, advertised_host="kafka.example") as broker:
        pem = broker.certificate_pem
        assert pem is not None
        assert "PRIVATE" not in pem
        context = ssl.create_default_context(cadata=pem)
        for name in ("localhost", "127.0.0.1", "kafka.example"):
            with (
                socket.create_connection(("127.0.0.1", broker.nodes[0].port)) as plain,
                context.wrap_socket(plain, server_hostname=name) as client,
            ):
                assert client.version() == "TLSv1.3"
        settings = broker.client_settings()
        assert settings["ssl.truststore.certificates"] == pem
        assert settings["security.protocol"] == "SSL"


def test_two_are_not_the_same_and_hide_their_keys() -> None:
    one, other = make_self_signed(), make_self_signed(["h", "10.0.0.1"])
    assert one.certificate != other.certificate
    assert "PRIVATE" not in repr(one)


def test_without_the_program_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"openssl does not run: .*; give ssl_certfile"):
        Broker(tls=True)
    program = tmp_path / "openssl"
    program.write_text("#!/bin/sh\necho no entropy >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(self_signed, "_TIMEOUT_S", 30.0)
    with pytest.raises(ConfigError, match="openssl says: no entropy"):
        make_self_signed()
