"""fastprod.spark.sink.commit_total: figures of all commits in one file that does not grow."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from fastprod.spark.sink import commit_total
from fastprod.spark.sink.commit_total import Committed, CommitTotal
from fastprod.spark.sink.write_result import WriteResult

COMMIT = {
    "rows": 2,
    "bytes": 20,
    "sent_bytes": 30,
    "retried_rows": 1,
    "throttle_ms": 3,
    "seconds": 0.0004,
    "offsets": {"t": {"0": [5, 6]}},
}


@pytest.fixture
def commits() -> Iterator[CommitTotal]:
    commits = CommitTotal()
    yield commits
    commits.close()
    assert not commits.path.exists()


def test_commits_are_added_up(commits: CommitTotal) -> None:
    assert commits.read() is None
    commit_total.add(commits.path, COMMIT, 7)
    assert commits.read() == Committed(
        WriteResult(2, 20, {"t": {0: (5, 6)}}, 1, 0.0004, 30, 3, batches=1), 7
    )
    commit_total.add(commits.path, {**COMMIT, "offsets": {"t": {"0": [7, 8], "1": [0, 0]}}}, 8)
    assert commits.read() == Committed(
        WriteResult(4, 40, {"t": {0: (5, 8), 1: (0, 0)}}, 2, 0.0008, 60, 6, batches=2), 8
    )


def test_a_dataframe_has_no_batch_id(commits: CommitTotal) -> None:
    commit_total.add(commits.path, COMMIT, None)
    committed = commits.read()
    assert committed is not None
    assert committed.batch_id is None


def test_the_file_does_not_grow_with_the_commits(commits: CommitTotal) -> None:
    sizes = []
    for number in range(200):
        commit_total.add(commits.path, COMMIT, number)
        sizes.append(commits.path.stat().st_size)
    assert sizes[-1] < sizes[0] + 30


def test_who_closed_it_is_not_written_to(commits: CommitTotal) -> None:
    commits.close()
    with pytest.raises(FileNotFoundError):
        commit_total.add(commits.path, COMMIT, 1)
    assert not commits.path.exists()


@pytest.mark.parametrize("found", [None, b"{}", b"[]", b"{", b"\xff"])
def test_what_cannot_be_read_is_told_once(
    commits: CommitTotal, caplog: pytest.LogCaptureFixture, found: bytes | None
) -> None:
    if found is None:
        commits.path.unlink()
    else:
        commits.path.write_bytes(found)
    with caplog.at_level(logging.WARNING, "fastprod.spark"):
        assert [commits.read() for _ in range(3)] == [None] * 3
    (told,) = caplog.records
    assert str(commits.path) in told.message
