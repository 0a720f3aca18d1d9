"""DataDirectory: the folder of a broker with files, its lock, identity, topics and producer ids.

Logs lie beside these files; other modules handle them. Topics are in a `TopicJournal`; the
producer ids' file is written to a second name, synced and renamed: after a crash there is the old
content or the new, never half of one. After `close` nothing is written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from fastprod.broker.cluster.topic_journal import TopicJournal
from fastprod.broker.cluster.topics import SavedTopic
from fastprod.broker.log.partition_folder import (
    DELETED_FOLDERS,
    METADATA_FILE,
    read_topic_id,
    renamed,
    set_aside,
)
from fastprod.broker.log.segments.file_handle import replace_file
from fastprod.errors import ConfigError

_FORMAT_VERSION = 1
# No topic can be called so.
_NODE_PREFIX = "node@"


class DataDirectory:
    """One broker's folder, made if it does not exist, and held until `close`. Any thread.

    Args:
        path: the folder; only one broker at a time can use it.

    Raises:
        ConfigError: another broker uses it (`key` is data_dir), or its files are of another
            format or damaged.
        OSError: it cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._journal = TopicJournal(path / "cluster.json")
        # Held by each write: the folder is not released in the middle of one.
        self._write_lock = threading.Lock()
        self._producer_ids_path = path / "producer-ids.json"
        self._lock_fd = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock_fd)
            raise ConfigError(
                f"another broker uses the folder {path}; stop it, or choose another data_dir",
                key="data_dir",
            ) from None

    def read_cluster(self) -> tuple[str | None, list[SavedTopic]]:
        """Return the cluster's id, None in a new folder, and its topics.

        Raises:
            ConfigError: the file cannot be understood.
        """
        try:
            return self._journal.read()
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(self._journal.path, error) from error

    def check_nodes(self, topics: Iterable[SavedTopic], node_ids: Collection[int]) -> None:
        """Refuse a start with fewer nodes than before, if records would be lost by it.

        A replica that is not in sync would lead, or an empty one, and the next start with all nodes
        would remove the logs of the others, which are no replicas then.

        Raises:
            ConfigError: no replica of a partition that is in sync is on these nodes.
        """
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                if partition.isr and not {*partition.isr} & {*node_ids}:
                    raise ConfigError(
                        f"{self.path} has all records of {topic.name}-{index} on node(s) "
                        f"{', '.join(map(str, partition.isr))} alone, and this broker has nodes 0 "
                        f"to {max(node_ids)}: start it with {min(partition.isr) + 1} nodes at "
                        f"least, or choose another data_dir",
                        key="data_dir",
                    )

    def write_cluster(self, cluster_id: str, topics: Iterable[SavedTopic]) -> None:
        """Write down the cluster's id and all of its topics; `write_topics` can follow.

        Raises:
            OSError: it cannot be written, or this is closed; the old file stays.
        """
        with self._write_lock:
            self._check_held()
            self._journal.begin(cluster_id, topics)

    def write_topics(self, changed: Iterable[SavedTopic], deleted: Iterable[bytes]) -> None:
        """Write down topics that are new or have changed, and ids of those that are gone.

        Raises:
            OSError: it cannot be written, or this is closed; none of it holds.
        """
        with self._write_lock:
            self._check_held()
            self._journal.add(changed, deleted)

    def read_next_producer_id(self) -> int:
        """Return the first producer id that no earlier run can have given away.

        Raises:
            ConfigError: the file cannot be understood.
        """
        content = self._read(self._producer_ids_path)
        if content is None:
            return 0
        try:
            return int(content["next_producer_id"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(self._producer_ids_path, error) from error

    def write_next_producer_id(self, next_producer_id: int) -> None:
        """Write down that every producer id below may be in use.

        Raises:
            OSError: it cannot be written, or this is closed; the old file stays.
        """
        content = {"format_version": _FORMAT_VERSION, "next_producer_id": next_producer_id}
        with self._write_lock:
            self._check_held()
            replace_file(self._producer_ids_path, json.dumps(content).encode(), sync=True)

    def logs_of(self, node_id: int) -> Path:
        """The folder for the replicas of a node: that of node 0, and of logs that all nodes share,
        is this one.
        """
        return self.path / f"{_NODE_PREFIX}{node_id}" if node_id else self.path

    def _log_folders(self) -> list[Path]:
        return [self.path, *sorted(self.path.glob(f"{_NODE_PREFIX}*"))]

    def set_aside_stray(self, folder: Path) -> Path | None:
        """Rename a partition's folder that belongs to no topic; returns its new name.

        A crash between deleting a topic and deleting its logs leaves one. A new topic of that
        name must not find the old records in it.
        """
        if not folder.exists():
            return None
        number = 0
        while (stray := renamed(folder, f".{number}-stray")).exists():
            number += 1
        folder.rename(stray)
        return stray

    def find_strays(self, topics: Iterable[SavedTopic]) -> list[str]:
        """Names of folders of logs that belong to none of these topics, which are all there are.

        Those without a segment, left by a crash while a topic was made, are renamed.

        Raises:
            OSError: a folder cannot be renamed.
        """
        known = {
            f"{topic.name}-{index}" for topic in topics for index in range(len(topic.partitions))
        }
        known.update(each.name for each in self.deleted_folders())
        strays = []
        for home in self._log_folders():
            for name in sorted({each.name for each in home.iterdir()} - known):
                try:
                    files = [each.name for each in (home / name).iterdir()]
                except OSError:
                    # A file, or not ours.
                    continue
                is_log = METADATA_FILE in files
                if not is_log and not all(each.startswith(METADATA_FILE) for each in files):
                    continue
                # Replicas have a file before their first segment: the epoch of their leader.
                if files and not any(".log" in each for each in files):
                    set_aside(home / name)
                elif is_log:
                    strays.append(str((home / name).relative_to(self.path)))
        return strays

    def set_aside_deleted(self) -> None:
        """Rename folders of deleted logs that a crash or a stop has left (B-C1.1).

        Call it after `read_cluster`, which finds the deleted topics, and before `write_cluster`.

        Raises:
            OSError: a folder cannot be renamed.
        """
        for topic in self._journal.deleted:
            names = [f"{topic.name}-{index}" for index in range(len(topic.partitions))]
            for folder in [home / name for home in self._log_folders() for name in names]:
                if _is_of(folder, topic):
                    set_aside(folder)

    def set_aside_removed(self, topics: Iterable[SavedTopic], node_ids: Iterable[int]) -> None:
        """Rename folders of replicas that a reassignment has removed, and a crash has left.

        Raises:
            OSError: a folder cannot be renamed.
        """
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                if partition.isr is None:
                    # Its one log is node 0's, whoever its replicas are.
                    continue
                for node_id in {*node_ids} - {*partition.replicas}:
                    folder = self.logs_of(node_id) / f"{topic.name}-{index}"
                    if folder.exists() and _is_of(folder, topic):
                        set_aside(folder)

    def deleted_folders(self) -> list[Path]:
        """Renamed folders that are not removed yet."""
        return [each for home in self._log_folders() for each in home.glob(DELETED_FOLDERS)]

    def close(self) -> None:
        """Let another broker use the folder. May be repeated. Blocks for a write under way."""
        with self._write_lock:
            if self._lock_fd >= 0:
                # A forked child may hold a copy of the descriptor, and with it the lock.
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
                self.abandon()

    def abandon(self) -> None:
        """In the child of a fork: close the descriptor; the parent keeps the lock."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
            self._journal.close()

    def _check_held(self) -> None:
        if self._lock_fd < 0:
            raise OSError(
                errno.EBADF, "this broker is stopped, the folder may be another's", str(self.path)
            )

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return None
        try:
            content = json.loads(text)
            version = content["format_version"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(path, error) from error
        if version != _FORMAT_VERSION:
            raise ConfigError(
                f"{path} has format {version}; this version reads format {_FORMAT_VERSION} only",
                key="data_dir",
            )
        return dict(content)

    @staticmethod
    def _damaged(path: Path, error: Exception) -> ConfigError:
        return ConfigError(
            f"{path} cannot be read ({type(error).__name__}: {error}); restore it, or start with "
            f"an empty data_dir",
            key="data_dir",
        )


def _is_of(folder: Path, topic: SavedTopic) -> bool:
    """Whether a folder with that topic's name belongs to this topic."""
    try:
        return read_topic_id(folder) == UUID(bytes=topic.id)
    except ValueError:
        # It is damaged, and renamed when its name is needed.
        return False
