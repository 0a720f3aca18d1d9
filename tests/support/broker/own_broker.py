"""OwnBroker: `fastprod broker` as a process that can be killed and started again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from kept_process import KeptProcess
from support.chaos.proxy import free_neighbours

START_S = 60.0


class OwnBroker:
    """A broker process on fixed ports, with its records in a folder.

    Args:
        folder: for data and log; made by pytest, removed by it.
        nodes: how many.
        options: further ones of `fastprod broker`.
        listeners: names to security protocols; the first has `bootstrap_servers`. None: one, in
            plain text.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 1,
        options: tuple[str, ...] = (),
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._nodes = nodes
        ports = free_neighbours(nodes * len(listeners or [""]))
        self._first_ports = dict(zip(listeners or (), range(ports, 1 << 16, nodes), strict=False))
        where = ["--port", str(ports)]
        if listeners is not None:
            ways = (f"{each}={listeners[each]}:{port}" for each, port in self._first_ports.items())
            where = [word for way in ways for word in ("--listener", way)]
        self._command = (
            *(sys.executable, "-m", "fastprod", "broker", *where),
            *("--nodes", str(nodes), "--data-dir", str(self.data_dir), *options),
        )
        self._process = self._start()

    def bootstrap(self, listener: str) -> str:
        """host:port of each node, comma-separated, of one listener."""
        first = self._first_ports[listener]
        return ",".join(f"127.0.0.1:{port}" for port in range(first, first + self._nodes))

    @property
    def data_dir(self) -> Path:
        return self._folder / "data"

    def _start(self) -> KeptProcess:
        process = KeptProcess("fastprod broker", self._command, self._folder / "broker.log")
        found = process.wait_for_output(r"listening on ([^;\s]+);", START_S)
        self.bootstrap_servers = found[1]
        return process

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def restart(self) -> None:
        """Start it again after a kill, or after a clean stop."""
        self._process = self._start()

    def stop(self) -> bool:
        """SIGTERM; whether it ended by itself."""
        return self._process.stop()

    def __enter__(self) -> OwnBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.is_running:
            self._process.stop()
