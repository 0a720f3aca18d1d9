"""MockCluster: confluent-kafka's mock brokers in a process of their own.

They answer fast and check nothing: right for measuring a producer and for quick tests, wrong as
proof that what was written is valid. A topic comes into being when it is first asked for, with 4
partitions. kafka-python cannot bootstrap against it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from kept_process import KeptProcess

START_TIMEOUT_S = 60.0


class MockCluster:
    """`with MockCluster() as mock: mock.bootstrap_servers`.

    Args:
        brokers: number of brokers, 1 or more; ids from 1.

    Blocks: start 0.2 s, at most 20 s. The process dies with its starter.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._owner_pid = os.getpid()
        self._folder: Path | None = None
        self._process: KeptProcess | None = None
        self.bootstrap_servers = ""

    def __enter__(self) -> Self:
        atexit.register(self.close)
        self._folder = Path(tempfile.mkdtemp(prefix="fastprod-mock-"))
        self._process = KeptProcess(
            "mock cluster",
            [sys.executable, __file__, str(self._brokers)],
            self._folder / "log",
            folder=self._folder,
            # Its threads do not live with the library of ThreadSanitizer.
            env={name: text for name, text in os.environ.items() if name != "LD_PRELOAD"},
        )
        try:
            ready = self._process.wait_for_output(r"bootstrap (\S+)\n", START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        self.bootstrap_servers = ready.group(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the brokers."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """End the process; harmless when done already."""
        atexit.unregister(self.close)
        if os.getpid() != self._owner_pid:
            return
        if self._process is not None:
            self._process.kill()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None


def serve(brokers: int) -> None:
    """Run the mock brokers in this process until a signal ends it."""
    producer = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
    found = producer.list_topics(timeout=START_TIMEOUT_S).brokers.values()
    print("bootstrap", ",".join(f"{each.host}:{each.port}" for each in found), flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
