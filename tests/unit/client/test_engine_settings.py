"""The engine's settings are the configuration's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.client.engine_settings import engine_settings
from fastprod.config import ADAPTIVE_LINGER_BOUND_MS, STICKY_BATCH_SIZE, ProducerConfig


def settings(**config: Any) -> dict[str, Any]:
    return engine_settings(ProducerConfig(bootstrap_servers="localhost:1", **config))


def test_defaults_are_adaptive_and_idempotent() -> None:
    found = settings()
    assert found["linger_ms"] is None
    assert found["linger_bound_ms"] == ADAPTIVE_LINGER_BOUND_MS
    assert (found["acks"], found["idempotent"], found["max_in_flight"]) == (-1, True, 5)
    assert found["sticky_bytes"] == STICKY_BATCH_SIZE


def test_a_transactional_id_is_handed_over() -> None:
    assert settings()["transactional_id"] is None
    assert settings(transactional_id="ledger")["transactional_id"] == "ledger"


@pytest.mark.parametrize(
    ("codec", "level"), [("gzip", 7), ("lz4", 4), ("zstd", 11), ("snappy", 0), ("none", 0)]
)
def test_each_codec_takes_its_own_level(codec: str, level: int) -> None:
    """KIP-390"""
    found = settings(
        compression_type=codec,
        compression_gzip_level=7,
        compression_lz4_level=4,
        compression_zstd_level=11,
    )
    assert (found["compression"], found["compression_level"]) == (codec, level)


def test_the_bound_of_a_linger_is_its_length_unless_it_adapts() -> None:
    assert settings()["linger_bound_ms"] == 5
    assert settings(linger_ms=0)["linger_bound_ms"] == 0


def test_the_sticky_limit_is_smaller_than_a_default_batch() -> None:
    """P-C.5.1, design: 256 KiB batches with a limit of their own for switching."""
    assert (settings()["batch_bytes"], settings()["sticky_bytes"]) == (262_144, 16_384)
    assert settings(batch_size=1_000)["sticky_bytes"] == 1_000
    assert settings(batch_size=0)["sticky_bytes"] == 1


def test_one_request_at_a_time_keeps_the_order() -> None:
    """P-B.6"""
    assert settings(max_in_flight_requests_per_connection=1)["guarantee_order"]
    assert not settings()["guarantee_order"]


def test_poll_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTPROD_POLL", raising=False)
    assert not settings()["force_poll"]
    monkeypatch.setenv("FASTPROD_POLL", "poll")
    assert settings()["force_poll"]


def test_seeds_differ() -> None:
    assert settings()["seed"] != settings()["seed"]
