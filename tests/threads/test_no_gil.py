"""Records go out and are acknowledged without the interpreter (design: the first idea).

ci/check_nogil.py proves the same on the generated C; here it is seen to happen.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from mock_cluster import MockCluster
from support.broker.own_broker import OwnBroker
from support.processes import leak_guard
from support.security.authority import CertificateAuthority
from support.security.secured_kafka import PASSWORD, USER, Secured

COUNT = 100_000
VALUE = bytes(100)
HELD_S = 6
IO_THREAD = "[fastprod-io]"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")


class Witness(threading.Thread):
    """Notes the time whenever the interpreter lets it, every millisecond."""

    def __init__(self) -> None:
        super().__init__(name="witness")
        self.stamps_ns: list[int] = []
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            self.stamps_ns.append(time.monotonic_ns())
            time.sleep(0.001)
        self.stamps_ns.append(time.monotonic_ns())

    def longest_silence(self) -> tuple[int, int]:
        """The widest gap between two notes: in it no other Python thread ran."""
        return max(itertools.pairwise(self.stamps_ns), key=lambda pair: pair[1] - pair[0])

    def end(self) -> None:
        """Stop taking notes."""
        self.is_over = True
        self.join()


@contextmanager
def spinner() -> Iterator[None]:
    """A thread of pure Python that never lets go of the interpreter by itself."""
    stop: list[bool] = []

    def spin() -> None:
        turns = 0
        while not stop:
            turns += 1

    thread = threading.Thread(target=spin, name="spinner")
    thread.start()
    try:
        yield
    finally:
        stop.append(True)
        thread.join()


def prove_acknowledged_in_silence(topic: str, settings: dict[str, Any]) -> None:
    """Every acknowledgement is stamped by the I/O thread; the last stamp lies in the silence."""
    c_library = ctypes.PyDLL(None)  # unlike CDLL it holds the GIL during a call
    witness = Witness()
    with KafkaProducer(
        settings,
        linger_ms=2_000,
        batch_size=8_000_000,
        max_request_size=16_000_000,
        buffer_memory=64_000_000,
    ) as producer:
        producer.warmup(topic)
        witness.start()
        try:
            bulk = producer.send_many(topic, [VALUE] * COUNT)
            before = producer._engine.counters()
            c_library.sleep(HELD_S)
            after = producer._engine.counters()
        finally:
            witness.end()
        began_ns, ended_ns = witness.longest_silence()
        last_ms = (after["last_ack_ns"] - began_ns) / 1e6
        print(
            f"{before['records_acked']:,} records were acknowledged before, "
            f"{after['records_acked']:,} after a silence of {(ended_ns - began_ns) / 1e6:,.0f} ms; "
            f"the last one {last_ms:,.1f} ms after its beginning"
        )
        assert ended_ns - began_ns >= HELD_S * 900_000_000
        assert before["records_acked"] < COUNT
        assert after["records_acked"] == COUNT
        assert began_ns < after["last_ack_ns"] < ended_ns
        assert bulk.done()
        assert bulk.result(0).record_count == COUNT


def test_a_bulk_is_acknowledged_while_the_main_thread_holds_the_gil_in_c(
    mock_cluster: MockCluster,
) -> None:
    prove_acknowledged_in_silence("t", {"bootstrap_servers": mock_cluster.bootstrap_servers})


def test_the_same_over_sasl_ssl(authority: CertificateAuthority, tmp_path: Path) -> None:
    """TLS is the I/O thread's, too: our broker is another process."""
    options = (
        *("--topic", "t", "--sasl-user", f"{USER}:{PASSWORD}"),
        *("--tls-certificate", str(authority.issue("silent broker").both)),
    )
    with OwnBroker(tmp_path, 1, options, {"SECURE": "SASL_SSL"}) as broker:
        settings = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(authority.certificate),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": USER,
            "sasl_password": PASSWORD,
        }
        prove_acknowledged_in_silence("t", settings)


def test_the_same_over_sasl_ssl_to_apache_kafka(secured: Secured, topic: TopicFactory) -> None:
    name = topic(secured.kafka, config={"max.message.bytes": "16000000"})
    prove_acknowledged_in_silence(name, dict(secured.client("SCRAM")))


def test_records_are_done_beside_a_spinning_thread_without_a_call_of_ours(
    mock_cluster: MockCluster,
) -> None:
    """No poll, no flush, no wait: the main thread, too, only looks."""
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer, spinner():
        producer.warmup("t")
        bulk = producer.send_many("t", [VALUE] * COUNT)
        single = producer.send("t", VALUE)
        deadline_s = time.monotonic() + 60
        while not (single.done() and bulk.done()):
            assert time.monotonic() < deadline_s
        assert producer._engine.counters()["records_acked"] == COUNT + 1


@ON_LINUX
def test_the_io_thread_has_no_python_thread_state_and_takes_no_signal(
    mock_cluster: MockCluster,
) -> None:
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("t", VALUE).result(20)
        native = [each for each, name in leak_guard.threads().items() if IO_THREAD in name]
        assert len(native) == 1
        assert native[0] not in {each.native_id for each in threading.enumerate()}
        assert len(sys._current_frames()) == threading.active_count()
        status_path = Path(f"/proc/self/task/{native[0]}/status")
        status = dict(line.split(":\t") for line in status_path.read_text().splitlines())
        # SIGKILL, SIGSTOP and the two that the C library keeps cannot be blocked.
        unblockable = (1 << 8) | (1 << 18) | (3 << 31)
        assert int(status["SigBlk"], 16) | unblockable == (1 << 64) - 1
