"""Makes the class-data archive with which Apache Kafka starts fast (see java_flags).

It starts Kafka once, and has its JVM write what it loaded: what a start or two take. With the
archive at hand, nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import java_flags
import kafka_jars
from kafka_cluster import KafkaCluster

_STOP_S = 60.0


def make(archive: Path, write: Callable[[Path], object]) -> None:
    """Have an archive written, and put it where it belongs when it is whole.

    Raises: RuntimeError when it was not written.
    """
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=archive.parent) as folder:
        part = Path(folder) / archive.name
        write(part)
        if not part.exists():
            raise RuntimeError(f"Java ended, but wrote no archive {archive}")
        part.rename(archive)


def write_kafka(path: Path) -> None:
    """Start Kafka, make a topic, and end it."""
    with KafkaCluster(1, java=java_flags.writing(path)) as kafka:
        kafka.create_topic("t")
        kafka.stop_node(1, _STOP_S)


def main() -> None:
    """Make it if it is missing."""
    archive = java_flags.archive(kafka_jars.program("java"), kafka_jars.jars())
    if not archive.exists():
        make(archive, write_kafka)


if __name__ == "__main__":
    main()
