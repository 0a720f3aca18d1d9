"""KafkaNode: one combined KRaft broker and controller as a process."""

from __future__ import annotations

import random
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import kafka_jars
from kept_process import KeptProcess

READY = r"Kafka Server started"

_LOG4J = """status=error
rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c{1})%n%throwable
"""


@dataclass(frozen=True)
class Endpoint:
    """One listener of a node, on loopback; `told_port` is for clients, if it is another one."""

    name: str
    protocol: str
    port: int
    told_port: int | None = None

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def told(self) -> str:
        """host:port that clients are told."""
        return f"127.0.0.1:{self.told_port or self.port}"


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below the range that the system gives to outgoing connections.

    A node that was killed must get its port back. Inside that range a client that keeps trying
    to reconnect can be given the very port it connects to, and so hold it.
    """
    ports: set[int] = set()
    for _ in range(1000):
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.add(port)
        if len(ports) == count:
            return sorted(ports)
    raise RuntimeError(f"found only {len(ports)} of {count} free ports between 12000 and 32000")


class KafkaNode:
    """One node; its folder holds the settings, the log of the process, and the data.

    Args:
        node_id: from 1.
        folder: made by `prepare`; removed by the keeper if the starter dies.
        endpoints: the listeners; the first is PLAINTEXT and for clients and brokers, the one
            named CONTROLLER is the quorum's.

    Threads: any, one at a time.
    """

    def __init__(self, node_id: int, folder: Path, endpoints: Sequence[Endpoint]) -> None:
        self.node_id = node_id
        self.folder = folder
        self.data = folder / "data"
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._process: KeptProcess | None = None
        self._quorum = ""
        self._settings: dict[str, str] = {}

    def prepare(self, cluster_id: str, quorum: str, settings: Mapping[str, str]) -> None:
        """Write the settings and a formatted data folder, as StorageTool would."""
        self.data.mkdir(parents=True)
        (self.data / "meta.properties").write_text(
            f"version=1\nnode.id={self.node_id}\ncluster.id={cluster_id}\n"
            f"directory.id={kafka_jars.new_kafka_id()}\n"
        )
        shutil.copy(kafka_jars.bootstrap_checkpoint(), self.data)
        self._quorum, self._settings = quorum, dict(settings)
        self._write_properties()
        (self.folder / "log4j2.properties").write_text(_LOG4J)

    def move(self, ports: Mapping[str, int]) -> None:
        """Give listeners, by name, other ports; for the next `launch`."""
        for name, port in ports.items():
            self.endpoints[name] = replace(self.endpoints[name], port=port)
        self._write_properties()

    def _write_properties(self) -> None:
        ends = self.endpoints.values()
        advertised = [end for end in ends if end.name != "CONTROLLER"]
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": self._quorum,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": advertised[0].name,
            "listeners": ",".join(f"{end.name}://{end.address}" for end in ends),
            "advertised.listeners": ",".join(f"{end.name}://{end.told}" for end in advertised),
            "listener.security.protocol.map": ",".join(
                f"{end.name}:{end.protocol}" for end in ends
            ),
            "log.dirs": str(self.data),
            **self._settings,
        }
        lines = [f"{key}={value}\n" for key, value in properties.items()]
        (self.folder / "server.properties").write_text("".join(lines))

    def launch(self, heap: str, java: Sequence[str]) -> None:
        """Start the process; `wait_ready` waits for it.

        Args:
            heap: -Xmx.
            java: further flags of the JVM; see java_flags.
        """
        if self.is_running:
            raise RuntimeError(f"Kafka node {self.node_id} is running already")
        self._process = KeptProcess(
            f"Kafka node {self.node_id}",
            [
                kafka_jars.program("java"),
                *java,
                f"-Xmx{heap}",
                *("-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError"),
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                *("-cp", str(kafka_jars.jars() / "*")),
                *("kafka.Kafka", str(self.folder / "server.properties")),
            ],
            self.folder / "server.log",
            folder=self.folder,
        )

    @property
    def process(self) -> KeptProcess:
        """The newest process, running or not."""
        if self._process is None:
            raise RuntimeError(f"Kafka node {self.node_id} was never started")
        return self._process

    @property
    def was_launched(self) -> bool:
        """True once there is a process to wait for."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        """True while its process lives."""
        return self._process is not None and self._process.is_running

    def wait_ready(self, timeout_s: float) -> None:
        """Block until the broker is unfenced and serves requests."""
        self.process.wait_for_output(READY, timeout_s)
