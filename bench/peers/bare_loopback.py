"""A plain TCP connection over loopback that nobody answers: as many bytes as the values have."""

from __future__ import annotations

import os
import socket

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload

_WRITE_BYTES = 512_000
_READ_BYTES = 1 << 20


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    piece = b"".join(values)[:_WRITE_BYTES]
    size = load.round_count * sum(map(len, values))
    meter = Meter()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        child = os.fork()
        if child == 0:
            _read_all(listener)
        with socket.create_connection(address) as connection:
            meter.start()
            for _ in range(size // len(piece)):
                connection.sendall(piece)
            connection.sendall(piece[: size % len(piece)])
            connection.shutdown(socket.SHUT_WR)
            arrived = int.from_bytes(connection.recv(8), "big")
            meter.stop()
    os.waitpid(child, 0)
    if arrived != size:
        raise SystemExit(f"{arrived:,} bytes arrived of {size:,}")
    return meter.outcome(load.record_count, 0, size)


def _read_all(listener: socket.socket) -> None:
    """The other process: reads to the end, says how much it was, and ends."""
    connection, _ = listener.accept()
    space, count = bytearray(_READ_BYTES), 0
    while got := connection.recv_into(space):
        count += got
    connection.sendall(count.to_bytes(8, "big"))
    os._exit(0)


if __name__ == "__main__":
    serve(work)
