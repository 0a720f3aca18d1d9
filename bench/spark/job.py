"""SparkJob: what one Spark session is to do in one run; SparkOutcome: what that brought."""

from __future__ import annotations

import dataclasses
import json
from typing import Self

_WARM_ROWS = 2_000_000


@dataclasses.dataclass(frozen=True)
class SparkJob:
    """One run of one sink in a session of its own.

    Args:
        sink: a name of `bench.spark.sinks.SINKS`; or "tasks" or "micro-batches" for the cost of
            these with our sink.
        row_count: rows that are timed; for "tasks" and "micro-batches" how many of them.
        value_bytes: of each row's value; its key has 8.
        cores: N of local[N].
        settings: of the sink's producer, by Kafka's names.
        bootstrap_servers: filled in when the run starts; so the next two.
        topic: made for this run.
        server_pids: processes whose CPU time is not foreign.
    """

    sink: str
    row_count: int
    value_bytes: int = 100
    cores: int = 1
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    bootstrap_servers: str = ""
    topic: str = ""
    server_pids: list[int] = dataclasses.field(default_factory=list)

    @property
    def warm_row_count(self) -> int:
        """Rows that go before the clock starts, so that Java has compiled what it uses."""
        return max(self.row_count // 5, min(self.row_count, _WARM_ROWS))

    @property
    def delivers(self) -> bool:
        """Whether its rows are to be found in the topic afterwards."""
        return self.sink not in ("count", "count_columns", "tasks", "micro-batches")

    @property
    def has_columns(self) -> bool:
        """Whether its rows are of typed columns, of which values are JSON."""
        return self.sink in ("json", "to_json", "count_columns")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class SparkOutcome:
    """What one run brought.

    Attributes:
        row_count: rows that were timed.
        wall_s: from the write's call to its return.
        cpu_s: CPU time of driver, JVM and workers in that time.
        python_cpu_s: the Python processes' part of it.
        peak_bytes: largest resident memory, added up over these processes.
        foreign_share: what others took of the machine meanwhile, all cores = 1.
        median_ms: of a task, or of a micro-batch; None for a sink's run.
    """

    row_count: int
    wall_s: float
    cpu_s: float
    python_cpu_s: float
    peak_bytes: int
    foreign_share: float
    median_ms: float | None = None

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))
