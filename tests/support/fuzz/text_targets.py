"""Targets that read texts: SASL's messages, settings, files of lines."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

from fastprod.broker.network.tls.peer_name import subject_of
from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.transactions.group_offsets import group_metadata_of
from fastprod.errors import ConfigError
from fastprod.load import csv_reader
from fastprod.load.csv_reader import csv_names, read_csv
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile, NeedsSpark
from fastprod.load.json_reader import read_json
from fastprod.load.reader_options import ReaderOptions
from fastprod.security.jaas_line import JaasError, parse_jaas
from fastprod.security.proxy_settings import parse_proxy_url
from fastprod.security.scram import ScramClient, ScramError, ScramServer, make_credentials
from fastprod.security.secret import Secret
from fastprod.settings.properties_file import decode_properties, parse_properties, properties_text
from support.fuzz.target import Target

# A line may have as many columns as bytes, and each costs pyarrow some microseconds.
_CSV_BYTES = 128
_SMALL_BLOCK_BYTES = 32
_MECHANISM = "SCRAM-SHA-256"
_NONCE = "rOprNGfwEbeRWgbNEkqO"
_CREDENTIALS = make_credentials(_MECHANISM, "pencil", iterations=4096, salt=b"0123456789abcdef")
_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvY,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096"


def _scram_client(data: bytes) -> None:
    """Both messages of a server."""
    client = ScramClient(_MECHANISM, "user", "pencil", nonce=_NONCE)
    client.first()
    first, _, final = data.partition(b"\n")
    if b",i=" in first and len(first.rpartition(b",i=")[2]) > len("9999"):
        return  # a million iterations are allowed, and take a second
    client.final(first)
    client.verify(final)


def _scram_server(data: bytes) -> None:
    """Both messages of a client."""
    server = ScramServer(_MECHANISM, nonce="%hvY")
    first, _, final = data.partition(b"\n")
    server.read_first(first)
    server.first(_CREDENTIALS)
    server.final(final)


def _properties(data: bytes) -> None:
    found = parse_properties(decode_properties(data))
    assert parse_properties(properties_text(found)) == found


def _jaas(data: bytes) -> None:
    parse_jaas(data.decode(errors="replace"))


def _proxy_url(data: bytes) -> None:
    parse_proxy_url("proxy_url", Secret(data.decode(errors="replace")))


def _token(data: bytes) -> None:
    read_token(data.decode("latin-1"), 1_000.0)


def _group_metadata(data: bytes) -> None:
    group_metadata_of(b"CGMDv2:" + data)


class _File:
    """A parser of files, which are written for it one by one, in memory if that can be."""

    def __init__(self, read: Callable[[FileSplit], None]) -> None:
        self._read = read
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._number = -1
        self._path = ""

    def _open(self) -> None:
        if sys.platform == "linux":
            self._number = os.memfd_create("fastprod-fuzz")
            self._path = f"/dev/fd/{self._number}"
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="fastprod-fuzz-")
            self._path = f"{self._folder.name}/input"
            self._number = os.open(self._path, os.O_RDWR | os.O_CREAT)

    def __call__(self, data: bytes) -> None:
        if self._number < 0:
            self._open()
        os.ftruncate(self._number, 0)
        os.pwrite(self._number, data, 0)
        file = InputFile(self._path, self._path, len(data), 0)
        self._read(FileSplit(file, "file", 0, len(data), len(data)))


def _csv(split: FileSplit) -> None:
    """In blocks of a line or two, or in one."""
    block_bytes = (_SMALL_BLOCK_BYTES, _CSV_BYTES)[split.stop % 2]
    parts: dict[str, Any] = {
        name: functools.partial(getattr(csv_reader, name), block_bytes=block_bytes)
        for name in ("line_blocks", "record_blocks")
    }
    with mock.patch.multiple(csv_reader, **parts):
        for options in (ReaderOptions(), ReaderOptions(is_multiline=True)):
            names = csv_names(split.path, options)
            if names:
                for _ in read_csv(split, options, names[:1]):
                    pass


def _json(split: FileSplit) -> None:
    for _ in read_json(split, {}):
        pass


def text_targets() -> list[Target]:
    """Each parser of texts once."""
    return [
        Target(
            "scram-client",
            _scram_client,
            (ScramError,),
            (_SERVER_FIRST + b"\nv=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"e=x\n"),
        ),
        Target(
            "scram-server",
            _scram_server,
            (ScramError,),
            (
                b"n,,n=user,r=rOpr\nc=biws,r=rOpr%hvY,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            ),
        ),
        Target("properties", _properties, (ValueError,), (b"a = b\\\n c\n! x\n\\u0041:1",)),
        Target("jaas", _jaas, (JaasError,), (b'a.B required username="x\\"" password=\'y\';',)),
        Target("proxy-url", _proxy_url, (ConfigError,), (b"socks5h://u:p@h:1", b"http://[::1]:8")),
        Target("token", _token, (MechanismError,), (b"eyJhIjoxfQ.eyJleHAiOjJ9.x",)),
        Target(
            "group-metadata",
            _group_metadata,
            (ValueError,),
            (b"\1\0\0\0group\0member\0\0instance\0", b"\1\0\0\0group\0member\0\1"),
        ),
        Target("peer-name", subject_of, (ValueError,), (b"0\x03\x02\x01\x00",)),
        Target(
            "csv",
            _File(_csv),
            (InputError, NeedsSpark),
            (b'a,b\n1,"x"\n"",2\n', b'a,b\r\n1,"x\r\ny"\r\n'),
            most_bytes=_CSV_BYTES,
        ),
        Target("json-lines", _File(_json), (InputError,), (b'{"a":1}\n\n{"a":[1,{"b":null}]}\n',)),
    ]
