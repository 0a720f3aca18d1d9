"""TopicJournal: a line a change, whole or not there at all."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from fastprod.broker.cluster import topic_journal
from fastprod.broker.cluster.topic_journal import TopicJournal
from fastprod.broker.cluster.topics import SavedPartition, SavedTopic
from fastprod.broker.log.segments.file_handle import FileHandle


def saved(name: str, epoch: int = 0) -> SavedTopic:
    id = name.encode().ljust(16, b"\0")
    return SavedTopic(name, id, {"retention.ms": "5"}, [SavedPartition([0, 1], epoch)])


A, B, C = saved("a"), saved("b"), saved("c")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def found(path: Path) -> tuple[str | None, list[SavedTopic]]:
    return TopicJournal(path).read()


def test_changes_are_found_again_in_their_order(path: Path) -> None:
    assert found(path) == (None, [])
    journal = TopicJournal(path)
    journal.begin("the-id", [B])
    journal.add([C, A], [])
    journal.add([saved("b", 7)], [])
    journal.add([], [C.id])
    assert found(path) == ("the-id", [A, saved("b", 7)])
    journal.begin("the-id", [C])
    assert found(path) == ("the-id", [C])


def test_a_crash_at_any_byte_leaves_the_changes_before_it(path: Path) -> None:
    journal = TopicJournal(path)
    journal.begin("the-id", [A])
    sizes = [journal.size_bytes]
    states = [[A]]
    for changed, deleted, state in (
        ([B], [], [A, B]),
        ([saved("a", 3)], [B.id], [saved("a", 3)]),
        ([C], [], [saved("a", 3), C]),
    ):
        journal.add(changed, deleted)
        sizes.append(journal.size_bytes)
        states.append(state)
    content = path.read_bytes()
    assert len(content) == sizes[-1]
    for size in range(sizes[0], len(content) + 1):
        path.write_bytes(content[:size])
        whole = sum(end <= size for end in sizes) - 1
        assert found(path) == ("the-id", states[whole])
        # Without power the disk may have kept the size of the file, and not what is in it.
        path.write_bytes(content[:size] + bytes(len(content) - size))
        assert found(path) == ("the-id", states[whole])


def test_topics_are_known_as_deleted_while_they_may_have_folders(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C1.1: those of the last deletion also if the file is made shorter, until it is begun
    anew.
    """

    def deleted() -> list[SavedTopic]:
        journal = TopicJournal(path)
        journal.read()
        return journal.deleted

    journal = TopicJournal(path)
    journal.begin("the-id", [A, B, C])
    assert deleted() == []
    journal.add([], [A.id, b"not there"])
    assert deleted() == [A]
    monkeypatch.setattr(topic_journal, "_SPARE_BYTES", -(1 << 16))
    journal.add([], [B.id])
    assert deleted() == [B]
    journal.add([saved("c", 1)], [])
    assert deleted() == [B]
    assert found(path) == ("the-id", [saved("c", 1)])
    journal.begin("the-id", [C])
    assert deleted() == []
    assert found(path) == ("the-id", [C])


def test_what_is_under_way_is_found_again(path: Path) -> None:
    """B-D4.12"""
    journal = TopicJournal(path)
    journal.begin("the-id", [A])
    moving = SavedPartition([2, 0], 3, [0], (2,), (0,))
    journal.add([A._replace(partitions=[moving])], [])
    assert found(path) == ("the-id", [A._replace(partitions=[moving])])


def test_damage_before_a_change_that_was_told_is_no_crash(path: Path) -> None:
    journal = TopicJournal(path)
    journal.begin("the-id", [A])
    journal.add([B], [])
    journal.add([C], [])
    content = bytearray(path.read_bytes())
    content[content.index(b'"b"')] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="line 3 is damaged"):
        found(path)


def test_the_older_format_is_taken_over(path: Path) -> None:
    row = {
        "name": "a",
        "id": A.id.hex(),
        "config": A.config,
        "partitions": [{"replicas": [0, 1], "leader_epoch": 0}],
    }
    older = {"format_version": 1, "cluster_id": "the-id", "topics": [row]}
    for indent in (1, None):
        path.write_text(json.dumps(older, indent=indent))
        assert found(path) == ("the-id", [A])


def test_a_line_that_cannot_be_written_is_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it cannot be cut off: the next change writes all others anew."""
    for can_be_cut in (True, False):
        journal = TopicJournal(path)
        journal.begin("the-id", [A])
        with monkeypatch.context() as broken:
            broken.setattr(FileHandle, "sync", fails)
            if not can_be_cut:
                broken.setattr(FileHandle, "truncate", fails)
            with pytest.raises(OSError):
                journal.add([B], [])
        if can_be_cut:
            assert found(path) == ("the-id", [A])
        journal.add([C], [A.id])
        assert found(path) == ("the-id", [C])


def fails(*_: object) -> None:
    raise OSError(errno.EIO, "the disk is broken")


def test_the_file_grows_by_what_changes_and_is_made_shorter(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_journal, "_SPARE_BYTES", 1000)
    journal = TopicJournal(path)
    journal.begin("the-id", [])
    grown = []
    for number in range(200):
        before = journal.size_bytes
        journal.add([saved(f"t{number:03}")], [])
        grown.append(journal.size_bytes - before)
    assert len(set(grown)) == 1
    rewritten = 0
    for epoch in range(1000):
        before = journal.size_bytes
        journal.add([saved("t007", epoch)], [])
        rewritten += journal.size_bytes < before
    assert 1 <= rewritten <= 20
    assert len(found(path)[1]) == 200
    for number in range(200):
        journal.add([], [saved(f"t{number:03}").id])
    assert found(path) == ("the-id", [])
    assert journal.size_bytes < 2000


def test_a_file_that_cannot_be_made_shorter_keeps_what_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(topic_journal, "_SPARE_BYTES", 0)
    journal = TopicJournal(path)
    journal.begin("the-id", [A])
    path.with_name("cluster.json.tmp").mkdir()
    for epoch in range(10):
        journal.add([saved("a", epoch)], [])
    assert found(path) == ("the-id", [saved("a", 9)])
    assert "cannot be made shorter" in caplog.text
