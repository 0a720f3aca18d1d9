"""fastprod.cli.options.finite_range: numbers that are none are refused."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.options.finite_range import FiniteRange
from unit.cli.conftest import Run


def test_a_finite_number_within_the_range_is_taken() -> None:
    assert FiniteRange(min=0).convert("2.5", None, None) == 2.5
    with pytest.raises(click.BadParameter, match="not in the range"):
        FiniteRange(min=0).convert("-1", None, None)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_nan_and_inf_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a finite number"):
        FiniteRange().convert(text, None, None)


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--timeout"],
        ["perf", "--topic", "t", "--num-records", "1", "--throughput"],
        ["load", "f", "--topic", "t", "--max-mb-per-second"],
        ["spark-stream", "rate", "--topic", "t", "--run-for"],
    ],
)
def test_every_number_of_a_command_must_be_finite(run: Run, words: list[str]) -> None:
    result = run(*words, "nan")
    assert result.exit_code == 2
    assert "'nan' is not a finite number" in result.stderr
