"""The Java producer by Kafka's own ProducerPerformance, in a JVM with its full compiler.

Its figures are the tool's: the time it takes to get warm is in them, the start of the JVM is in the
CPU time only.
"""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
from pathlib import Path

import kafka_jars
from bench.fresh_process import RUN_TIMEOUT_S, serve
from bench.meter import Outcome
from bench.values import make_values
from bench.workload import Workload

_CLASS = "org.apache.kafka.tools.ProducerPerformance"
_HEAP = "-Xmx512m"
_SETTINGS = {
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "idempotence": "enable.idempotence",
    "buffer_bytes": "buffer.memory",
}


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    settings = {
        "bootstrap.servers": load.bootstrap_servers,
        "acks": "all",
        "compression.type": load.codec,
    }
    for ours, theirs in _SETTINGS.items():
        given = getattr(load, ours)
        if given is not None:
            settings[theirs] = str(given).lower()
    with tempfile.TemporaryDirectory(prefix="fastprod-java-") as folder:
        file = Path(folder) / "producer.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        text = _run(load, len(values[0]), file)
    return _outcome(load, text, load.round_count * sum(map(len, values)))


def _run(load: Workload, value_bytes: int, file: Path) -> str:
    done = subprocess.run(
        [
            *(kafka_jars.program("java"), _HEAP, "-Dlog4j2.level=ERROR"),
            *("-cp", str(kafka_jars.jars() / "*"), _CLASS),
            *("--topic", load.topic, "--num-records", str(load.record_count)),
            *("--record-size", str(value_bytes), "--throughput", "-1"),
            *("--command-config", str(file)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=True,
    )
    return done.stdout


def _outcome(load: Workload, text: str, value_bytes: int) -> Outcome:
    last = text.strip().splitlines()[-1]
    found = re.match(r"(\d+) records sent, ([\d.]+) records/sec", last)
    if found is None:
        raise SystemExit(f"ProducerPerformance ended with {last!r}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Outcome(
        acknowledged_count=int(found[1]),
        warm_count=0,
        value_bytes=value_bytes,
        wall_s=int(found[1]) / float(found[2]),
        cpu_s=used.ru_utime + used.ru_stime,
        baseline_bytes=0,
        peak_bytes=used.ru_maxrss * 1024,
    )


if __name__ == "__main__":
    serve(work)
