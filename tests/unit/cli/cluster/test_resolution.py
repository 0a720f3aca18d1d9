"""fastprod.cli.cluster.resolution: names that are unknown, and a resolver that does not answer."""

from __future__ import annotations

import threading

import pytest

from fastprod.cli.cluster import resolution
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.resolution import resolve_in_time
from fastprod.client.connections.addresses import Address

TIMEOUT_S = 20.0
SHORT_S = 0.2


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(ConnectionTrouble, match=r"DNS does not know the host 'no\.invalid'") as r:
        resolve_in_time("no.invalid", 9092, TIMEOUT_S)
    assert r.value.cause == "dns"


def test_a_resolver_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def hang(host: str, port: int) -> list[Address]:
        release.wait(TIMEOUT_S)
        return []

    monkeypatch.setattr(resolution, "resolve", hang)
    try:
        with pytest.raises(ConnectionTrouble, match=r"gave no answer .* within 0\.2 s"):
            resolve_in_time("slow", 9092, SHORT_S)
    finally:
        release.set()
