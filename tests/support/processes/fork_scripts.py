"""Scripts about forks, each in a Python of its own, so that a crash or a hang shows what it was."""

from __future__ import annotations

import textwrap
from typing import Any

from kafka_cluster import KafkaCluster
from mock_cluster import MockCluster
from support.peer.scripted_peer import Peer
from support.processes.child_python import run_python
from support.records.readers import read_with_confluent

PRELUDE = """
import json, os, signal, sys, threading, time
from support.processes import forking
from fastprod import KafkaProducer
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import ForkedFutureError, KafkaError, ProducerClosedError

bootstrap, topic = sys.argv[1:3]

def new_producer(**config):
    return KafkaProducer(bootstrap_servers=bootstrap, **config)

def send(producer, name, count):
    return [producer.send(topic, b"%s-%d" % (name, i)) for i in range(count)]

def producer_id(producer):
    return producer._engine.counters()["producer_id"]
"""


def run(cluster: MockCluster | KafkaCluster | Peer, topic: str, script: str) -> Any:
    """Run a script after the prelude; what it printed last."""
    text = PRELUDE + textwrap.dedent(script)
    return run_python(text, cluster.bootstrap_servers, topic).told


def values(cluster: MockCluster | KafkaCluster, topic: str) -> list[bytes]:
    """Every value of the topic."""
    logs = read_with_confluent(cluster.bootstrap_servers, topic).values()
    return [record.value or b"" for log in logs for record in log]
