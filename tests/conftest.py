"""Shared test set-up: the oracles and ci/ are importable; real and mock clusters as fixtures."""

from __future__ import annotations

import contextlib
import gc
import itertools
import re
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "ci")]

from kafka_cluster import KafkaCluster  # noqa: E402
from mock_cluster import MockCluster  # noqa: E402
from support.security import secured_kafka  # noqa: E402
from support.security.authority import CertificateAuthority  # noqa: E402
from support.security.secured_kafka import Secured  # noqa: E402

pytest_plugins = ["support.clients.client_table", "support.peer.fixtures"]

KAFKA_FIXTURES = {"kafka", "kafka3", "secured", "secured3"}
SPARK_TESTS = TESTS / "spark"
# Fixtures that are a cluster, in the order in which tests have them.
CLUSTERS = ("kafka3", "kafka")
RUNNING = pytest.StashKey[dict[str, KafkaCluster]]()


def pytest_configure() -> None:
    """Set up what all tests need.

    They listen to Ctrl-C, as do the children: a run in the background has it switched off. None
    fails because its machine is slow: Hypothesis has limits of its own on the time of an example.
    """
    hypothesis.settings.register_profile(
        "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("unhurried")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses real Kafka, so that `-m "not kafka"` always leaves it out, and order modules.

    Those that share a cluster follow each other, as an idle one takes up to a fifth of a core.
    Spark comes last: its session lives to the end of the run, and takes time, memory and sockets
    of this process.
    """
    for item in items:
        if KAFKA_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
    used = {(item.path, name) for item in items for name in getattr(item, "fixturenames", ())}
    items.sort(
        key=lambda item: (
            SPARK_TESTS in item.path.parents,
            *((item.path, cluster) not in used for cluster in CLUSTERS),
        )
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the clusters that no test to come uses."""
    running = item.session.stash.get(RUNNING, {})
    if not running or (nextitem is not None and nextitem.path == item.path):
        return
    to_come = item.session.items[item.session.items.index(item) + 1 :]
    used = {name for each in to_come for name in getattr(each, "fixturenames", ())}
    for name in running.keys() - used:
        running.pop(name).close()


@pytest.fixture(autouse=True, scope="module")
def what_was_there_before_stays() -> None:
    """Keep what others imported and left out of the garbage collector's sight.

    Tests collect before they look for what they leave behind, thousands of times in a run, and each
    time would take a tenth of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Who signs the certificates of the session's clusters."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@contextlib.contextmanager
def _cluster(
    request: pytest.FixtureRequest, nodes: int, authority: CertificateAuthority
) -> Iterator[KafkaCluster]:
    """A cluster that runs until the last test that uses the fixture which asks for it."""
    settings = secured_kafka.listener_settings(authority)
    listeners = dict(secured_kafka.LISTENERS)
    if nodes > 1:
        settings |= secured_kafka.changing_settings(authority)
        listeners[secured_kafka.CHANGING] = "SSL"
    with KafkaCluster(nodes, settings, listeners=listeners) as cluster:
        assert request.fixturename in CLUSTERS
        request.session.stash.setdefault(RUNNING, {})[request.fixturename] = cluster
        yield cluster


@pytest.fixture(scope="session")
def kafka(
    request: pytest.FixtureRequest, authority: CertificateAuthority
) -> Iterator[KafkaCluster]:
    """Apache Kafka, one node, for all tests of the run that use it; they may not stop it."""
    with _cluster(request, 1, authority) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured(kafka: KafkaCluster, authority: CertificateAuthority) -> Secured:
    """The same node by its listeners with TLS and SASL: `secured.client("SCRAM")`."""
    return secured_kafka.secure(kafka, authority)


@pytest.fixture(scope="session")
def kafka3(
    request: pytest.FixtureRequest, authority: CertificateAuthority
) -> Iterator[KafkaCluster]:
    """Apache Kafka, three nodes, replication 3, min.insync.replicas 2, for all tests that use it.

    A test that kills, stops or pauses a node must bring it back.
    """
    with _cluster(request, 3, authority) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured3(kafka3: KafkaCluster, authority: CertificateAuthority) -> Secured:
    """The three nodes by their listeners with TLS and SASL."""
    return secured_kafka.secure(kafka3, authority)


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """confluent-kafka's mock cluster, one broker, in a process of its own."""
    with MockCluster() as cluster:
        yield cluster


class TopicFactory(Protocol):
    """Makes a topic with a new name on a cluster and returns the name."""

    def __call__(
        self,
        cluster: KafkaCluster,
        partitions: int = 1,
        *,
        replication: int | None = None,
        config: dict[str, str] | None = None,
    ) -> str: ...


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> TopicFactory:
    """`topic(kafka, partitions=3)`: a topic of this test alone, ready to be written."""
    numbers = itertools.count()
    test = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:80]
    run = uuid.uuid4().hex[:8]

    def make(
        cluster: KafkaCluster,
        partitions: int = 1,
        *,
        replication: int | None = None,
        config: dict[str, str] | None = None,
    ) -> str:
        name = f"{test}-{run}-{next(numbers)}"
        cluster.create_topic(name, partitions, replication, config)
        return name

    return make
