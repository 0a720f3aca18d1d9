"""What connections by TLS cost our broker."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct

import pytest

from support.processes.child_python import finish, start_python

CONNECTIONS = 1_000
LIMIT_KIB = 60_000

# Tells its port, its certificate and its memory; and its memory again after each line it reads.
BROKER = """
import json, sys
from fastprod.broker import Broker

def resident_kib():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmRSS"].split()[0])

with Broker(tls=True, topics={"t": 1}) as broker:
    print(json.dumps([broker.nodes[0].port, broker.certificate_pem]), flush=True)
    for line in sys.stdin:
        print(resident_kib(), flush=True)
"""

# ApiVersions v0 without a client id, and where its answer has the error code.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
ANSWER = struct.Struct(">iih")


@pytest.mark.slow
def test_a_thousand_connections_take_less_than_60_mb() -> None:
    """Every one has been used, and is used again when all are there."""
    with start_python(BROKER) as child, contextlib.ExitStack() as opened:
        opened.callback(finish, child)
        asked, told = child.stdin, child.stdout
        assert asked is not None
        assert told is not None

        def resident_kib() -> int:
            print(file=asked, flush=True)
            return int(told.readline())

        port, pem = json.loads(told.readline())
        context = ssl.create_default_context(cadata=pem)

        def connected() -> ssl.SSLSocket:
            plain = opened.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            return opened.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

        def exchange(client: ssl.SSLSocket) -> None:
            client.sendall(API_VERSIONS)
            answer = b""
            while len(answer) < ANSWER.size or len(answer) < 4 + ANSWER.unpack_from(answer)[0]:
                part = client.recv(65_536)
                assert part, answer
                answer += part
            assert ANSWER.unpack_from(answer)[1:] == (7, 0)

        exchange(connected())
        before_kib = resident_kib()
        clients = [connected() for _ in range(CONNECTIONS)]
        for _ in range(2):
            for client in clients:
                exchange(client)
        taken_kib = resident_kib() - before_kib
        print(f"{CONNECTIONS:,} connections by TLS: {taken_kib:,} KiB")
        assert 0 < taken_kib < LIMIT_KIB
