"""Where a node listens."""

from __future__ import annotations

import socket
from pathlib import Path

from kafka_node import free_ports


def test_free_ports_are_distinct_and_below_the_outgoing_range() -> None:
    ports = free_ports(20)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 20
    assert max(ports) < lowest
    for port in ports:
        with socket.socket() as listener:
            # As Kafka does: connections of one that was there before may still be remembered.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
