"""The inputs that fuzzing has found worth keeping, once more (see ci/fuzz.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.fuzz.all_targets import CORPUS, all_targets, read_corpus, write_corpus
from support.fuzz.target import Target
from support.oracle.damage import damaged
from support.processes.scale import scaled

TARGETS = all_targets()
DAMAGED_INPUTS = 2_000


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_every_input_is_taken_or_refused_as_documented(target: Target) -> None:
    """P-J.1.5, P-E.1, P-E.3: seeds, the corpus, and damage by chance."""
    known = [*target.seeds, *read_corpus(target.name)]
    assert known
    for data in known:
        target(data)
    others = [data for data in known if data]
    chance = random.Random(target.name)
    for _ in range(scaled(DAMAGED_INPUTS)):
        target(damaged(chance.choice(known), others, chance))


def test_every_target_that_has_sound_inputs_takes_one() -> None:
    """Else it would be its refusals that are tried."""
    refused_by_nature = {"scram-client", "scram-server", "token", "peer-name"}
    for target in TARGETS.values():
        taken = [target(data) for data in (*target.seeds, *read_corpus(target.name))]
        assert any(taken) or target.name in refused_by_nature, target.name


def test_a_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    inputs = [b"", b"\0\xff", b"a\nb"]
    write_corpus("x", [*inputs, b"a\nb"], tmp_path)
    assert sorted(read_corpus("x", tmp_path)) == sorted(inputs)
    assert read_corpus("y", tmp_path) == []


def test_no_corpus_is_of_a_target_that_is_gone() -> None:
    assert {path.stem for path in CORPUS.glob("*.txt")} <= set(TARGETS)
