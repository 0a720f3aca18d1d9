"""Other people's clients change the limits of connections, and these hold at once (B-A8.5, B-D4.9,
B-D4.10).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

import kafka_jars
from fastprod.broker import Broker
from support.broker.sockets import is_ended

TIMEOUT_S = 30.0
LIMIT = "max.connections.per.ip"
RATE = "connection_creation_rate"
OTHER = "127.0.0.2"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(brokers=2, quota_window_num=2, quota_window_size_seconds=1) as broker:
        yield broker


@contextlib.contextmanager
def connections(broker: Broker, count: int, node: int = 0) -> Iterator[list[socket.socket]]:
    """Connections from an address that no client uses; in the end they are counted no more."""
    with contextlib.ExitStack() as all_of_them:
        address = (broker.nodes[node].host, broker.nodes[node].port)
        yield [
            all_of_them.enter_context(
                socket.create_connection(address, TIMEOUT_S, source_address=(OTHER, 0))
            )
            for _ in range(count)
        ]
    server = broker.nodes[node]._server.server
    deadline_s = time.monotonic() + TIMEOUT_S
    while server is not None and OTHER in server.quotas._counts:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def is_open(client: socket.socket, within_s: float = 0.2) -> bool:
    """Whether nothing, not even an end, comes within this time."""
    client.settimeout(within_s)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    return False


def test_confluents_admin_limits_connections(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def alter(name: str, setting: str, value: str | None, **options: object) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resource = ConfigResource("broker", name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource], **options)[resource].result(TIMEOUT_S)

    overrides = "max.connections.per.ip.overrides"
    alter("1", overrides, f"{OTHER}:1", validate_only=True)
    with connections(broker, 2, node=1) as clients:
        assert all(map(is_open, clients))
    alter("1", overrides, f"{OTHER}:1")
    with connections(broker, 2, node=1) as (first, second):
        assert is_ended(second)
        assert is_open(first)
    with connections(broker, 2, node=0) as clients:
        assert all(map(is_open, clients))
    resource = ConfigResource("broker", "1")
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert (found[overrides].value, found[overrides].source) == (f"{OTHER}:1", 2)
    assert not found[overrides].is_read_only
    alter("1", overrides, None)
    with connections(broker, 2, node=1) as clients:
        assert all(map(is_open, clients))
    with pytest.raises(KafkaException, match=r"num\.partitions cannot be changed"):
        alter("0", "num.partitions", "3")


def configs(broker: Broker, *arguments: str) -> str:
    done = kafka_jars.run_class(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", broker.bootstrap_servers, *arguments),
        timeout_s=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_kafkas_own_tool_limits_addresses_and_nodes(broker: Broker) -> None:
    kafka_jars.resolve()
    entity = ("--entity-type", "ips", "--entity-name", OTHER)
    configs(broker, "--alter", *entity, "--add-config", f"{RATE}=1")
    assert f"{RATE}=1" in configs(broker, "--describe", *entity)
    with connections(broker, 4) as clients:
        # Who comes too fast is closed when its throttle ends, within a second.
        assert is_ended(clients[-1])
        assert is_open(clients[0])
    configs(broker, "--alter", *entity, "--delete-config", RATE)
    with connections(broker, 4) as clients:
        assert is_open(clients[-1], within_s=1.5)

    everywhere = ("--entity-type", "brokers", "--entity-default")
    configs(broker, "--alter", *everywhere, "--add-config", f"{LIMIT}=70")
    assert f"{LIMIT}=70" in configs(broker, "--describe", *everywhere)
    configs(broker, "--alter", *everywhere, "--delete-config", LIMIT)
    assert LIMIT not in configs(broker, "--describe", *everywhere)
