"""Gathering never leaves a record behind, in whatever order threads take their steps."""

from __future__ import annotations

import pytest

from support.engine.gathering_model import Gathering


@pytest.mark.parametrize("awaited", [0, 1, 2, 3])
def test_every_record_is_sent(awaited: int) -> None:
    assert not Gathering(awaited).stuck()


@pytest.mark.parametrize("without", ["the time", "the order of check and take"])
def test_no_part_of_it_is_needless(without: str) -> None:
    assert Gathering(3, without).stuck()


def test_without_the_kick_of_the_last_only_the_time_helps() -> None:
    """It would cost the whole wait each time."""
    assert not Gathering(2, "the kick of the last").stuck()
