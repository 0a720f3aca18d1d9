"""Settings of a log."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.log.log_config import LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert config.segment_bytes == 1 << 30
    assert config.segment_ms == config.retention_ms == 7 * 24 * 3_600_000
    assert (config.max_message_bytes, config.index_interval_bytes) == (1_048_588, 4096)
    assert (config.timestamp_after_max_ms, config.producer_batches) == (3_600_000, 5)
    assert (config.validation, config.sync) == ("full", "never")


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 0},
        {"segment_bytes": 2**31},
        {"retention_ms": -2},
        {"producer_batches": 0},
        {"validation": "some"},
        {"sync": "always"},
    ],
)
def test_a_setting_out_of_range_is_told_with_its_name(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}, it must be"):
        LogConfig(**wrong)
