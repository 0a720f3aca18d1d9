"""DataDirectory: one broker at a time; what is written is found again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastprod.broker.cluster.data_directory import DataDirectory
from fastprod.broker.cluster.topics import SavedPartition, SavedTopic
from fastprod.errors import ConfigError

TOPICS = [
    SavedTopic("a", bytes(range(16)), {"retention.ms": "5"}, [SavedPartition([0, 1], 3)]),
    SavedTopic("b", bytes(16), {}, [SavedPartition([1], 0), SavedPartition([0], 7)]),
]


def test_what_was_written_is_found_again(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "new" / "deep")
    assert directory.read_cluster() == (None, [])
    assert directory.read_next_producer_id() == 0
    directory.write_cluster("the-id", TOPICS)
    directory.write_next_producer_id(3000)
    directory.close()
    again = DataDirectory(tmp_path / "new" / "deep")
    assert again.read_cluster() == ("the-id", TOPICS)
    assert again.read_next_producer_id() == 3000
    again.close()
    again.close()


def test_a_folder_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(ConfigError, match="another broker uses") as refused:
        DataDirectory(tmp_path)
    assert refused.value.key == "data_dir"
    first.close()
    DataDirectory(tmp_path).close()


def test_a_copy_of_the_descriptor_does_not_keep_the_folder(tmp_path: Path) -> None:
    """A forked child has one."""
    first = DataDirectory(tmp_path)
    copy = os.dup(first._lock_fd)
    first.close()
    DataDirectory(tmp_path).close()
    os.close(copy)


def test_the_child_of_a_fork_does_not_free_its_parents_folder(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    copy = os.dup(first._lock_fd)
    first.abandon()
    with pytest.raises(ConfigError):
        DataDirectory(tmp_path)
    os.close(copy)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format_version": 1}',
        '{"format_version": 3, "cluster_id": "x"}\n',
        '{"format_version": 1, "cluster_id": "x", "topics": [{"name": "t"}]}',
        '{"format_version": 1, "cluster_id": "x", "topics": [1]}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    directory = DataDirectory(tmp_path)
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(ConfigError, match=r"cluster\.json") as refused:
        directory.read_cluster()
    assert refused.value.key == "data_dir"
    directory.close()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.write_cluster("old", TOPICS)
    (tmp_path / "cluster.json.tmp").mkdir()
    with pytest.raises(OSError):
        directory.write_cluster("new", [])
    assert directory.read_cluster() == ("old", TOPICS)
    directory.close()


def test_who_has_let_go_of_the_folder_does_not_write(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.write_cluster("old", TOPICS)
    directory.write_next_producer_id(3000)
    directory.close()
    with pytest.raises(OSError):
        directory.write_cluster("new", [])
    with pytest.raises(OSError):
        directory.write_next_producer_id(4000)
    again = DataDirectory(tmp_path)
    assert again.read_cluster() == ("old", TOPICS)
    assert again.read_next_producer_id() == 3000
    again.close()


@pytest.mark.parametrize(
    "metadata", ["version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "topic_id: x", "\0\0", None]
)
def test_what_may_not_be_of_a_deleted_topic_is_left_alone(
    tmp_path: Path, metadata: str | None
) -> None:
    """B-D4.3: one of the name "a" is another topic's, damaged, or no folder of a partition."""
    directory = DataDirectory(tmp_path)
    directory.write_cluster("the-id", TOPICS)
    directory.write_topics([], [TOPICS[0].id])
    if metadata is None:
        (tmp_path / "a-0").write_text("a file")
    else:
        (tmp_path / "a-0").mkdir()
        (tmp_path / "a-0" / "partition.metadata").write_text(metadata)
    directory.close()
    again = DataDirectory(tmp_path)
    again.read_cluster()
    again.set_aside_deleted()
    assert (tmp_path / "a-0").exists()
    again.close()


def test_a_stray_folder_is_set_aside_under_a_name_of_its_own(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    stray = tmp_path / "t-0"
    assert directory.set_aside_stray(stray) is None
    names = []
    for content in ("first", "second"):
        stray.mkdir()
        (stray / "log").write_text(content)
        moved = directory.set_aside_stray(stray)
        assert moved is not None
        names.append(moved.name)
        assert (moved / "log").read_text() == content
    assert names == ["t-0.0-stray", "t-0.1-stray"]
    directory.close()
