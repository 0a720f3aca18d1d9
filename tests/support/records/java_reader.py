"""Topics read completely by Apache Kafka's own console consumer, in JVMs of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import IO

import kafka_jars
from support.records.readers import READ_TIMEOUT_S, ReadRecord

_CHUNK_BYTES = 1 << 20
# Bytes are printed as if they were Latin-1, in UTF-8; so other characters stand between them.
_LINE, _FIELD, _HEADER = "\u241e", "\u241f", "\u241d"
# Goes through the deserializer as a value does; no workload has it.
_NONE = "nothing at all: 5b0c1f6e9a7d"
_LATIN_1 = "deserializer.encoding=ISO-8859-1"
_STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"
_FORM = (
    *("print.partition=true", "print.offset=true", "print.timestamp=true"),
    *("print.headers=true", "print.key=true", "print.value=true"),
    *(f"line.separator={_LINE}", f"key.separator={_FIELD}", f"headers.separator={_HEADER}"),
    f"null.literal={_NONE}",
    *(f"{part}.deserializer={_STRINGS}" for part in ("key", "value", "headers")),
    *(f"{part}.deserializer.{_LATIN_1}" for part in ("key", "value", "headers")),
)


def stream_with_java(
    topic: str,
    ends: Mapping[int, int],
    properties: Path,
    *,
    timeout_s: float = READ_TIMEOUT_S,
) -> Generator[ReadRecord, None, None]:
    """Read a topic, one partition after the other.

    Args:
        topic: name.
        ends: one past the last offset to read, by partition.
        properties: file with the settings of the consumer, `bootstrap.servers` among them.
        timeout_s: bound of the read of a partition.

    Yields: the records of each partition in the order of their offsets.
    Raises: RuntimeError with what Java says if it does not come to the end.
    """
    for partition, end in sorted(ends.items()):
        if end:
            yield from _partition(topic, partition, end, properties, timeout_s)


def _partition(
    topic: str, partition: int, end: int, properties: Path, timeout_s: float
) -> Generator[ReadRecord, None, None]:
    servers = _setting(properties, "bootstrap.servers")
    form = [word for each in _FORM for word in ("--formatter-property", each)]
    command = kafka_jars.class_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--command-config", str(properties)),
        *("--topic", topic, "--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(end), *form),
    )
    # What is not ASCII goes by the locale: the arguments, and the names of headers.
    locale = {**os.environ, "LC_ALL": "C.UTF-8"}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, env=locale
        ) as java,
    ):
        timer = threading.Timer(timeout_s, java.kill)
        timer.daemon = True
        timer.start()
        assert java.stdout is not None
        found = 0
        try:
            for line in _lines(java.stdout):
                found += 1
                yield _record(line)
            code = java.wait(timeout_s)
        finally:
            timer.cancel()
            java.kill()  # harmless after its end
        if code != 0 or found != end:
            said.seek(0)
            raise RuntimeError(
                f"{topic}-{partition}: Java ended with code {code} after {found:,} of {end:,} "
                f"records: {said.read().decode(errors='replace')[-2_000:]}"
            )


def _setting(properties: Path, name: str) -> str:
    for line in properties.read_text().splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2]
    raise LookupError(f"{properties} has no {name}")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    separator = _LINE.encode()
    rest: list[bytes] = [b""]
    while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
        # A separator may be cut in two.
        *lines, last = (rest.pop() + chunk).split(separator)
        yield from lines
        rest.append(last)
    assert rest == [b""]


def _record(line: bytes) -> ReadRecord:
    """ "CreateTime:1<>Partition:0<>Offset:5<>headers<>key<>value", with _FIELD between them."""
    time, partition, offset, headers, key, value = line.split(_FIELD.encode())
    return ReadRecord(
        int(partition.removeprefix(b"Partition:")),
        int(offset.removeprefix(b"Offset:")),
        int(time.removeprefix(b"CreateTime:")),
        _bytes(key),
        _bytes(value),
        _headers(headers),
    )


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    if text == b"NO_HEADERS":
        return ()
    pairs = (each.partition(b":") for each in text.split(_HEADER.encode()))
    return tuple((name.decode(), _bytes(value)) for name, _, value in pairs)


def _bytes(text: bytes) -> bytes | None:
    found = text.decode().encode("latin-1")
    return None if found == _NONE.encode() else found
