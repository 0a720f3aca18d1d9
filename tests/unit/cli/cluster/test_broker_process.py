"""fastprod.cli.cluster.broker_process: it is there within the block, and gone after it."""

from __future__ import annotations

import re
import socket

import pytest

from fastprod import KafkaProducer
from fastprod.cli.cluster import broker_process as module
from fastprod.cli.cluster.broker_process import broker_process
from fastprod.cli.output.failure import Unreachable


def test_it_serves_within_the_block_and_is_gone_after_it() -> None:
    with (
        broker_process(["--topic", "t:2"]) as servers,
        KafkaProducer(bootstrap_servers=servers) as producer,
    ):
        assert producer.send("t", b"x", partition=1).result(10).partition == 1
    host, port = servers.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)


def test_one_that_ends_at_once_is_told_with_its_exit_code() -> None:
    options = ["--no-such-option"]
    with pytest.raises(Unreachable, match="ended with exit code 2"), broker_process(options):
        pass


def test_one_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_START_S", 0.0)
    # Whatever it says before somebody looks.
    monkeypatch.setattr(module, "_START_LINE", re.compile(rb"never said"))
    with pytest.raises(Unreachable, match="did not start within 0 s"), broker_process():
        pass
