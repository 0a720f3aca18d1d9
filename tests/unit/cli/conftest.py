"""Fixtures for the command line: a runner, and servers that are no Kafka."""

from __future__ import annotations

import io
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fastprod.cli.command import fastprod
from fastprod.cli.output import progress_bar

PATIENCE_S = 10.0

Run = Callable[..., Result]
CannedServer = Callable[[bytes], str]


class StandingClock:
    """Stands in for the module `time`; it goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def become_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr one, 120 columns wide. Not in a fixture: pytest replaces it after those."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def properties_file(path: Path, settings: Mapping[str, Any]) -> str:
    """Write settings as a Java properties file; returns its path."""
    lines = [
        f"{name}={str(value).encode('unicode_escape').decode()}" for name, value in settings.items()
    ]
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    """What the progress bars look at."""
    clock = StandingClock()
    monkeypatch.setattr(progress_bar, "time", clock)
    return clock


@pytest.fixture
def run(clock: StandingClock) -> Run:
    """`run("produce", "topic", "-", input=b"line")`; what a command does not catch is raised.

    However slow it is, no line of its progress comes.
    """

    def invoke(*args: str, input: bytes | None = None) -> Result:
        result = CliRunner().invoke(fastprod, args, input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port of loopback where nothing listens, held so that nobody else comes to have it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def canned_server() -> Iterator[CannedServer]:
    """`canned_server(b"HTTP/1.1 400")`: host:port where every request gets these bytes.

    Each connection takes one request, answers and is closed.
    """
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def start(answer: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=_serve, args=(server, answer), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server, thread in servers:
        # Closing does not end an accept() that another thread is in; shutting down does on Linux,
        # and a last connection does everywhere.
        with socket.create_connection(server.getsockname()):
            server.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _serve(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(PATIENCE_S)
            if server.fileno() < 0 or not connection.recv(65_536):
                continue
            connection.sendall(answer)
