"""LoadEnding: how a load ended; its summary, its count, its exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fastprod.cli.options.loading import LoadingOptions
from fastprod.cli.output.failure import Interrupted, RecordsFailed
from fastprod.cli.output.standard_output import NotPrinted, print_out


@dataclass(frozen=True)
class LoadEnding:
    """How a load ended.

    Attributes:
        outcome: "complete", "interrupted" or "failed".
        failure: what went wrong, if it failed; else "".
    """

    outcome: str = "complete"
    failure: str = ""


def conclude(
    loading: LoadingOptions,
    ending: LoadEnding,
    counts: Mapping[str, Any],
    *,
    known: str,
    delivered: str,
    before_failure: str = ", then: ",
    advice: str = "",
) -> None:
    """Write the summary if one is wanted, then print the count or raise the failure.

    Args:
        loading: says where the summary goes.
        ending: how the load ended.
        counts: what the summary has besides the outcome, the topic and the error.
        known: what was delivered, in words, if not all was.
        delivered: the line to print if all was.
        before_failure: stands between `known` and the failure.
        advice: what to do about a load that did not complete; "": nothing.

    Raises:
        Interrupted: the load was.
        RecordsFailed: the load failed.
        click.UsageError: all was delivered, but the summary cannot be written.
    """
    summary = {
        "outcome": ending.outcome,
        "topic": loading.topic,
        **counts,
        "error": ending.failure or None,
    }
    unwritten = _write(loading.summary, json.dumps(summary))
    besides = f"; and {unwritten}" if unwritten else ""
    if ending.outcome == "interrupted":
        raise Interrupted(f"interrupted: {known}{advice}{besides}")
    if ending.outcome == "failed":
        raise RecordsFailed(f"{known}{before_failure}{ending.failure}{advice}{besides}")
    if unwritten:
        raise click.UsageError(f"{known}, but {unwritten}")
    if not loading.quiet and loading.summary != "-":
        print_out(delivered)


def _write(target: str | None, text: str) -> str:
    """Write the summary where it is wanted; return why that failed, or ""."""
    if target == "-":
        try:
            print_out(text)
        except NotPrinted as error:
            return f"--summary: {error.message}"
    elif target is not None:
        try:
            Path(target).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            return f"--summary: cannot write {target}: {error.strerror}"
    return ""
