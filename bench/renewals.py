"""Do renewals of a session show in the latencies of records, one at a time? And who causes it?

`bench/renewals_run [--periods N] [--pause-ms N]`. Tokens last for 5 s, and each period for three of
them, the second one without records. To our broker and to Apache Kafka, both in processes of their
own:

* renewing: a producer with such tokens; a window is the time from the spare connection to its swap.
* login beside: a producer whose token lasts, while another process, a bare socket, logs in as the
  renewal would; a window is that login. What shows here is the broker's doing and the machine's.
* work beside: the same, but the other process computes for about as long and asks no broker. What
  shows here is the machine's alone.
* nothing: windows of the same length without either.

A window counts as late with a sample over three times the median of all samples of its row.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.values import make_values
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.client.connections.sasl_connections import SaslConnections
from kafka_cluster import KafkaCluster
from support.security import secured_kafka
from support.security.authority import CertificateAuthority
from support.security.secured_kafka import unsecured_token

TOKEN_S = 5.0
LASTING_S = 3_600.0
EVERY_S = 4.0
LONGEST_S = 30.0
"""Of anything that is waited for."""
LATE = 3.0
BEFORE_S, AFTER_S = 0.001, 0.005
"""Of a window, around what it is about."""
QUIET_WINDOW_S = 0.02
COMPUTING_S = 0.002
_HANDSHAKE, _AUTHENTICATE, _API_VERSIONS = 17, 36, 18


class Span(NamedTuple):
    """When it began and ended, by time.monotonic()."""

    began_s: float
    ended_s: float


def log_in(servers: str) -> Span:
    """What a renewal asks of a broker, by a bare socket; when it began and ended."""
    host, _, port = servers.partition(":")
    token, _ = unsecured_token(TOKEN_S)
    first = b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    mechanism = b"OAUTHBEARER"
    began_s = time.monotonic()
    with socket.create_connection((host, int(port)), LONGEST_S) as bare:
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for key, version, body in (
            (_API_VERSIONS, 0, b""),
            (_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism),
            (_AUTHENTICATE, 1, struct.pack(">i", len(first)) + first),
        ):
            frame = struct.pack(">hhih", key, version, 1, 4) + b"bare" + body
            bare.sendall(struct.pack(">i", len(frame)) + frame)
            answer = bare.makefile("rb")
            (size,) = struct.unpack(">i", answer.read(4))
            found = answer.read(size)
            if key != _API_VERSIONS and struct.unpack_from(">h", found, 4)[0]:
                raise RuntimeError(f"the broker has refused: {found!r}")
    return Span(began_s, time.monotonic())


@contextlib.contextmanager
def watched_renewals() -> Iterator[list[Span]]:
    """The windows of the renewals of any producer of this process."""
    windows: list[Span] = []
    opened_s = [0.0]
    before = SaslConnections.open_spare, SaslConnections.on_swapped

    def open_spare(self: SaslConnections, slot: int) -> int | None:
        opened_s[0] = time.monotonic()
        return before[0](self, slot)

    def on_swapped(self: SaslConnections, event: Any) -> None:
        before[1](self, event)
        windows.append(Span(opened_s[0], time.monotonic()))

    SaslConnections.open_spare, SaslConnections.on_swapped = open_spare, on_swapped  # type: ignore[method-assign]
    try:
        yield windows
    finally:
        SaslConnections.open_spare, SaslConnections.on_swapped = before  # type: ignore[method-assign]


def compute() -> Span:
    """Use this process's CPU for about as long as `log_in` does; when that began and ended."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + COMPUTING_S:
        pass
    return Span(began_s, time.monotonic())


@contextlib.contextmanager
def logins_beside(servers: str) -> Iterator[list[Span]]:
    """The windows of logins of another process, once every `EVERY_S`; filled in at the end.

    Args:
        servers: where it logs in; "": nowhere, it computes.
    """
    windows: list[Span] = []
    command = (sys.executable, "-m", "bench.renewals", "--log-in", servers)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as other:
        try:
            yield windows
        finally:
            told, _ = other.communicate("", LONGEST_S)
    for line in told.splitlines():
        began, ended = line.split()
        windows.append(Span(float(began), float(ended)))


def log_in_until_told(servers: str) -> None:
    """Of the other process: until its input ends."""
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        print(*(log_in(servers) if servers else compute()), flush=True)


@contextlib.contextmanager
def nothing_beside() -> Iterator[list[Span]]:
    """Windows in which nothing happens."""
    began_s = time.monotonic()
    windows: list[Span] = []
    yield windows
    at_s = began_s + EVERY_S
    while at_s < time.monotonic():
        windows.append(Span(at_s, at_s + QUIET_WINDOW_S))
        at_s += EVERY_S


def send_for(servers: str, topic: str, periods: int, life_s: float, pause_s: float) -> list[Span]:
    """One record at a time, with pauses between them: for one token's life, not for the next one's,
    and again for one's."""
    samples = []
    with KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=lambda: unsecured_token(life_s),
    ) as producer:
        value = make_values("text-100")[0]
        for _ in range(200):
            producer.send(topic, value).result(LONGEST_S)
        for _ in range(periods):
            for is_busy in (True, False, True):
                end_s = time.monotonic() + TOKEN_S
                if not is_busy:
                    time.sleep(TOKEN_S)
                while (now_s := time.monotonic()) < end_s:
                    producer.send(topic, value).result(LONGEST_S)
                    samples.append(Span(now_s, time.monotonic()))
                    if pause_s:
                        time.sleep(pause_s)
    return samples


def judged(samples: list[Span], windows: list[Span]) -> list[str]:
    """A row: median, windows, windows that are late, longest sample in one, longest of all."""
    median_s = statistics.median(each.ended_s - each.began_s for each in samples)
    longest = []
    for began_s, ended_s in windows:
        inside = [
            each.ended_s - each.began_s
            for each in samples
            if each.ended_s >= began_s - BEFORE_S and each.began_s <= ended_s + AFTER_S
        ]
        if inside:
            longest.append(max(inside))
    late = sum(each > LATE * median_s for each in longest)
    return [
        f"{median_s * 1e6:.1f} us",
        str(len(longest)),
        str(late),
        f"{statistics.median(longest) / median_s:.1f}x",
        f"{max(longest) / median_s:.1f}x",
    ]


def judge_broker(servers: str, topic: str, periods: int, pause_s: float) -> None:
    """Print the rows of one broker."""
    rows: tuple[tuple[str, Callable[[], Any], float], ...] = (
        ("renewing", watched_renewals, TOKEN_S),
        ("login beside", lambda: logins_beside(servers), LASTING_S),
        ("work beside", lambda: logins_beside(""), LASTING_S),
        ("nothing", nothing_beside, LASTING_S),
    )
    for name, watch, life_s in rows:
        with watch() as windows:
            samples = send_for(servers, topic, periods, life_s, pause_s)
        print(f"  {name:<14}", "".join(f"{each:>12}" for each in judged(samples, windows)))


@contextlib.contextmanager
def our_broker() -> Iterator[str]:
    """Where it is; in a process of its own."""
    command = (sys.executable, "-m", "bench.renewals", "--serve")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.communicate("", LONGEST_S)


def serve() -> None:
    """Of our broker's process: until its input ends."""
    broker = Broker(
        topics={"t": 1},
        sasl_mechanisms=["OAUTHBEARER"],
    )
    with broker:
        print(broker.bootstrap_servers, flush=True)
        sys.stdin.read()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="bench/renewals_run", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--periods", type=int, default=4, help="of 15 s each; default 4")
    parser.add_argument(
        "--pause-ms", type=float, default=0, help="after each record; default 0: back to back"
    )
    parser.add_argument("--log-in", metavar="SERVERS", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.log_in is not None:
        return log_in_until_told(given.log_in)
    if given.serve:
        return serve()
    head = ("median", "windows", "late", "longest", "of all")
    print(f"  {'':<14}", "".join(f"{each:>12}" for each in head))
    with our_broker() as servers:
        print("our broker")
        judge_broker(servers, "t", given.periods, given.pause_ms / 1e3)
    with tempfile.TemporaryDirectory(prefix="fastprod-bench-") as folder:
        authority = CertificateAuthority(Path(folder))
        settings = secured_kafka.listener_settings(authority)
        with KafkaCluster(1, settings, listeners=dict(secured_kafka.LISTENERS)) as kafka:
            kafka.create_topic("t")
            print("Apache Kafka")
            judge_broker(kafka.bootstrap("CLEAR"), "t", given.periods, given.pause_ms / 1e3)


if __name__ == "__main__":
    main()
