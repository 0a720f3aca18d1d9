"""fastprod.security.pem_source: certificates and keys from files and texts."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_a_text_is_read_as_it_is_and_never_changes() -> None:
    source = PemSource(text=PEM)
    assert source.read() == PEM.encode()
    assert source.state() is None
    assert "AAAA" not in repr(source)
    assert b"AAAA" not in pickle.dumps(source)
    assert pickle.loads(pickle.dumps(source)) == source


def test_a_file_is_read_anew_and_its_state_changes(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    source = PemSource(str(path), setting="ssl_truststore_location")
    assert source.state() is None
    path.write_text(PEM)
    before = source.state()
    assert source.read() == PEM.encode()
    other = tmp_path / "new.pem"
    other.write_text(PEM + PEM)
    other.replace(path)
    assert source.state() != before
    assert source.read() == (PEM + PEM).encode()


def test_a_file_that_holds_no_pem_is_refused_with_setting_and_path(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    source = PemSource(str(path), setting="ssl_truststore_location")
    with pytest.raises(ConfigError, match=r"ssl_truststore_location = .*ca\.pem.*cannot be read"):
        source.read()
    path.write_text("nothing")
    with pytest.raises(ConfigError, match=r"ssl_truststore_location = .*holds no PEM"):
        source.read()


def test_a_source_is_one_of_the_two() -> None:
    with pytest.raises(ValueError, match="a path or a text"):
        PemSource()
    with pytest.raises(ValueError, match="a path or a text"):
        PemSource("p", PEM)


@pytest.mark.parametrize("end", ["\\n", " ", "\n", "\r\n", ""])
def test_a_text_on_one_line_is_put_in_order(end: str) -> None:
    data = "A" * 100
    text = f"-----BEGIN CERTIFICATE-----{end}{data}{end}-----END CERTIFICATE-----{end}"
    lines = ["-----BEGIN CERTIFICATE-----", "A" * 64, "A" * 36, "-----END CERTIFICATE-----"]
    read = PemSource(text=text * 2).read().decode()
    assert [line for line in read.splitlines() if line.strip()] == lines * 2


def test_an_encrypted_key_of_the_old_form_keeps_its_headers() -> None:
    kind = "RSA PRIVATE KEY-----\n"
    text = f"-----BEGIN {kind}Proc-Type: 4,ENCRYPTED\n\nAAAA\n-----END {kind}"
    assert PemSource(text=text).read().decode() == text


def test_a_path_in_place_of_a_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl_keystore_key = \[hidden\]: holds no PEM") as caught:
        PemSource(text="/hunter2.pem", setting="ssl_keystore_key").read()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "setting", "command"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "ssl_truststore_location", "keytool -list -rfc -keystore"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "ssl_keystore_location", "keytool -importkeystore"),
        (b"\x30\x82\x01\x00\x02\x01\x03\x30", "ssl.ca.location", "openssl pkcs12 -nokeys -in"),
        (b"\x30\x82\x01\x00\x02\x01\x03\x30", "ssl.keystore.location", "openssl pkcs12 -in"),
    ],
)
def test_a_store_of_javas_is_told_by_its_content(
    tmp_path: Path, data: bytes, setting: str, command: str
) -> None:
    (tmp_path / "store").write_bytes(data)
    with pytest.raises(ConfigError, match="turn it into PEM") as caught:
        PemSource(str(tmp_path / "store"), setting=setting).read()
    assert command in str(caught.value)


def test_a_directory_is_read_as_openssl_reads_it(tmp_path: Path) -> None:
    def pem(data: str) -> str:
        return PEM.replace("AAAA", data)

    (tmp_path / "a.pem").write_text(pem("AAAA"))
    (tmp_path / "b.crt").write_text(pem("BBBB"))
    (tmp_path / "readme").write_text(pem("CCCC"))
    source = PemSource(str(tmp_path))
    assert source.read().decode() == pem("AAAA") + "\n" + pem("BBBB")
    (tmp_path / "0123abcd.0").symlink_to(tmp_path / "b.crt")
    (tmp_path / "0123abcd.1").symlink_to(tmp_path / "b.crt")
    assert source.read().decode() == pem("BBBB")


@pytest.mark.parametrize("break_", ["\n", "\\n"])
def test_pem_where_a_path_is_due_is_not_shown(break_: str) -> None:
    text = PEM.replace("\n", break_)
    with pytest.raises(ConfigError, match=r"ssl_keystore_location = \[hidden\]: is PEM") as caught:
        PemSource(text, setting="ssl_keystore_location").read()
    assert "AAAA" not in str(caught.value)


def test_what_cannot_be_a_path_is_refused() -> None:
    source = PemSource("ca\0.pem", setting="ssl_truststore_location")
    assert source.state() is None
    with pytest.raises(ConfigError, match="cannot be a path"):
        source.read()
