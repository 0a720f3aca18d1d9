"""JavaMember: a Java consumer in a group, as a process that says what it does."""

from __future__ import annotations

import json
import subprocess
import threading
from types import TracebackType

import kafka_jars

TIMEOUT_S = 60.0
_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


class JavaMember:
    """Kafka's VerifiableConsumer, and what it says of itself: a line for each thing that it does.

    Args:
        servers: of the cluster.
        topic: it reads this.
        protocol: who assigns: "classic" or "consumer".

    Attributes:
        committed: (partition, first, last offset) of what it has read and then committed.
        partitions: those that it has now.
    """

    def __init__(self, servers: str, topic: str = "t", protocol: str = "classic") -> None:
        command = kafka_jars.class_command(
            _CONSUMER,
            *("--bootstrap-server", servers, "--topic", topic, "--group-id", "g"),
            *("--reset-policy", "earliest", "--group-protocol", protocol),
            *(("--session-timeout", "6000") if protocol == "classic" else ()),
        )
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.committed: list[tuple[int, int, int]] = []
        self.partitions: set[int] = set()
        self._read: list[tuple[int, int, int]] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue  # of Java's log, which speaks when it is told to end early
            said = json.loads(line)
            if said["name"] == "records_consumed":
                self._read += [
                    (each["partition"], each["minOffset"], each["maxOffset"])
                    for each in said["partitions"]
                ]
            elif said["name"] == "offsets_committed":
                if said["success"]:
                    self.committed += self._read
                self._read = []
            elif said["name"] == "partitions_assigned":
                self.partitions |= {each["partition"] for each in said["partitions"]}
            elif said["name"] == "partitions_revoked":
                self.partitions -= {each["partition"] for each in said["partitions"]}

    @property
    def count(self) -> int:
        """Records that it has committed."""
        return sum(last - first + 1 for _, first, last in list(self.committed))

    def stop(self, kills: bool = False) -> None:
        """Have it leave, or fall silent."""
        if kills:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(TIMEOUT_S)
        self._listener.join(TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> JavaMember:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()
