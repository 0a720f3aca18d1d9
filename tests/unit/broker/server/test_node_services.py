"""NodeServices: what a folder keeps over restarts."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.broker.cluster import topic_journal
from fastprod.broker.cluster.data_directory import DataDirectory
from fastprod.broker.cluster.decision import Decision
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.error_codes import NONE
from fastprod.errors import ConfigError
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from support.broker.replica_world import kill, replicated, values
from support.broker.world import PATIENCE_S, BrokerWorld, batch_of, wait_for

LONG_ENOUGH_TO_FETCH_S = 0.5
ASK_FOR_ID = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)


def test_topics_ids_and_settings_come_back(tmp_path: Path) -> None:
    with BrokerWorld(data_dir=tmp_path, topics={"t": 3}) as world:
        world.state.topics.create("u", 1, config={"retention.ms": "5"})
        ids = {each.name: each.id for each in world.state.topics.all()}
        cluster_id = world.state.cluster.cluster_id
    with BrokerWorld(data_dir=tmp_path) as again:
        topics = again.state.topics.all()
        assert {each.name: each.id for each in topics} == ids
        assert [len(each.partitions) for each in topics] == [3, 1]
        assert topics[1].config.overrides == {"retention.ms": "5"}
        assert again.state.cluster.cluster_id == cluster_id
        assert {each.leader_epoch for each in topics[0].partitions} == {1}


def test_fewer_nodes_than_have_the_records_do_not_start(tmp_path: Path) -> None:
    """A replica that lacks some would lead, and a start of all nodes remove those that do not."""
    with BrokerWorld(brokers=3, data_dir=tmp_path) as world:
        found = replicated(world)
        kill(world, 0)
        assert world.produce(batch_of(b"a"), node_id=1).error_code == NONE
        assert sorted(found.isr) == [1, 2]
    with pytest.raises(ConfigError, match=r"t-0 on node\(s\) 1, 2 alone.* with 2 nodes at least"):
        BrokerWorld(brokers=1, data_dir=tmp_path)
    with BrokerWorld(brokers=2, data_dir=tmp_path) as fewer:
        assert fewer.produce(batch_of(b"b"), node_id=1).error_code == NONE
    with BrokerWorld(brokers=3, data_dir=tmp_path) as again:
        partition = again.state.topics.partition("t", 0)
        assert isinstance(partition, ReplicatedPartition)
        assert values(partition, 1) == [b"a", b"b"]


def test_leader_epochs_grow_with_each_restart_without_a_change(tmp_path: Path) -> None:
    """B-C8.6"""
    found = []
    for _ in range(3):
        with BrokerWorld(data_dir=tmp_path, topics={"t": 1}) as world:
            partition = world.state.topics.partition("t", 0)
            assert partition is not None
            found.append(partition.leader_epoch)
    assert found == [0, 1, 2]


def test_no_leader_epoch_comes_again_after_a_restart(tmp_path: Path) -> None:
    """B-C8.6: neither one that clients were told of, nor one that a crash kept from being saved."""
    with BrokerWorld(brokers=2, data_dir=tmp_path, topics={"t": 1}) as world:
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert world.state.cluster.move_leader(partition, 1) == 1
        world.state.cluster.node_down(1, move_leaders=True)
        assert partition.leader_epoch == 2
        shutil.copytree(tmp_path, tmp_path.with_name("crashed"))
        partition.leader_epoch = 7
        partition.append(bytearray(batch_of(b"a")))
    for folder, epoch in ((tmp_path.with_name("crashed"), 3), (tmp_path, 8)):
        with BrokerWorld(brokers=2, data_dir=folder) as again:
            found = again.state.topics.partition("t", 0)
            assert found is not None
            assert found.leader_epoch == epoch


def test_the_end_syncs_each_file_once_and_one_checkpoint_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.2: of each partition the segment, what is in its indexes, and its folder's names."""
    count = 20
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    for turn, most in enumerate((3, 2, 2)):
        world = BrokerWorld(data_dir=tmp_path, topics={"t": count})
        for index in range(count):
            partition = world.state.topics.partition("t", index)
            assert partition is not None
            assert partition.log.log_end_offset == turn
            partition.append(bytearray(batch_of(b"a")))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            world.state.close()
        assert len(synced) == len(set(synced)), sorted(synced)
        assert len(synced) <= most * count + 2
        synced.clear()
    world = BrokerWorld(data_dir=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        world.state.close()
    assert synced == []


def test_the_longest_name_of_a_topic_has_room_for_what_follows_it(tmp_path: Path) -> None:
    """B-C1.1: a folder of a topic that is deleted or unknown gets a longer name."""
    name = "n" * 249
    (tmp_path / f"{name}-0").mkdir(parents=True)
    with BrokerWorld(data_dir=tmp_path, topics={name: 11}) as world:
        assert len(list(tmp_path.glob("*-stray"))) == 1
        world.state.topics.delete(name)
        assert list(tmp_path.glob(f"{name[:200]}*-[0-9]*")) == []


def test_a_deletion_that_a_crash_cut_short_is_finished(tmp_path: Path) -> None:
    """B-C1.2"""
    (tmp_path / f"t-0.{uuid.uuid4().hex}-delete" / "in").mkdir(parents=True)
    (tmp_path / "my-delete").mkdir()
    with BrokerWorld(data_dir=tmp_path):
        await_removal(tmp_path)
        assert [each.name for each in tmp_path.glob("*-delete")] == ["my-delete"]


def await_removal(folder: Path, pattern: str = "t-*") -> None:
    """Wait until nothing of that pattern is left, as is so soon after a start."""
    deadline_s = time.monotonic() + PATIENCE_S
    while list(folder.glob(pattern)):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def fill(world: BrokerWorld, name: str) -> None:
    topic = world.state.topics.get(name)
    assert topic is not None
    for partition in topic.partitions:
        partition.append(bytearray(batch_of(b"a")))


def test_a_stop_ends_a_deletion_between_two_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic may have 100,000. The next start removes the rest, which nobody syncs before."""
    with BrokerWorld(data_dir=tmp_path, topics={"t": 10, "u": 1}) as world:
        fill(world, "t")
    world = BrokerWorld(data_dir=tmp_path)
    fill(world, "t")
    delete = PartitionFolder.delete
    deleted: list[PartitionFolder] = []

    def delete_and_stop(folder: PartitionFolder) -> None:
        deleted.append(folder)
        delete(folder)
        if len(deleted) == 3:
            world.state.topics.refuse_changes()

    with monkeypatch.context() as patch:
        patch.setattr(PartitionFolder, "delete", delete_and_stop)
        topic = world.state.topics.delete("t")
    assert len(deleted) == 3
    assert all(each.is_deleted and each.log.is_closed for each in topic.partitions)
    world.state.close()
    assert len(list(tmp_path.glob("t-*"))) == 7
    assert "t-" not in (tmp_path / ".kafka_cleanshutdown").read_text()
    with BrokerWorld(data_dir=tmp_path) as again:
        assert [each.name for each in again.state.topics.all()] == ["u"]
        await_removal(tmp_path)


def crashes(
    monkeypatch: pytest.MonkeyPatch, folder: Path, action: Callable[[], object]
) -> list[Path]:
    """Copies of the folder as it is before each file that `action` removes or renames."""
    copies: list[Path] = []

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def crash_and_go_on(*about: Any, **more: Any) -> Any:
            copies.append(folder.with_name(f"{folder.name}-{len(copies)}"))
            shutil.copytree(folder, copies[-1])
            return real(*about, **more)

        return crash_and_go_on

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", before(Path.rename))
        patch.setattr(os, "unlink", before(os.unlink))
        patch.setattr(os, "rmdir", before(os.rmdir))
        action()
    return copies


@pytest.mark.parametrize("spare_bytes", [-(1 << 16), 1 << 16])
def test_a_deletion_is_finished_whenever_a_crash_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare_bytes: int
) -> None:
    """B-C1.1, B-D4.3: also while a start was at it, and if the topics' file is short."""
    monkeypatch.setattr(topic_journal, "_SPARE_BYTES", spare_bytes)
    data = tmp_path / "data"
    with BrokerWorld(data_dir=data, topics={"t": 3, "u": 1}) as world:
        fill(world, "t")
        first = crashes(monkeypatch, data, lambda: world.state.topics.delete("t"))
    assert len(first) > 3 * 3

    def start(folder: Path) -> None:
        with BrokerWorld(data_dir=folder) as again:
            assert [each.name for each in again.state.topics.all()] == ["u"]
            await_removal(folder)

    second = crashes(monkeypatch, first[0], lambda: start(first[0]))
    assert len(second) > 3 * 3
    for folder in (*first[1:], *second):
        start(folder)


def test_a_start_leaves_the_namesake_of_a_deleted_topic_alone(tmp_path: Path) -> None:
    """B-D4.3: both are in the file of topics."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with BrokerWorld(data_dir=data, topics={"t": 2}) as world:
        world.state.topics.delete("t")
        world.state.topics.create("t", 2)
        fill(world, "t")
        shutil.copytree(data, copy)
    with BrokerWorld(data_dir=copy) as again:
        (topic,) = again.state.topics.all()
        assert [each.log.log_end_offset for each in topic.partitions] == [1, 1]


def test_a_start_does_not_wait_for_a_removal_and_a_stop_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, B-C1.1"""
    for _ in range(5):
        (tmp_path / f"t-0.{uuid.uuid4().hex}-delete" / "in").mkdir(parents=True)
    rmtree = shutil.rmtree
    gate = threading.Event()
    came = threading.Event()

    def wait_and_remove(path: Path) -> None:
        came.set()
        gate.wait(PATIENCE_S)
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", wait_and_remove)
    world = BrokerWorld(data_dir=tmp_path)
    assert came.wait(PATIENCE_S)
    assert len(list(tmp_path.glob("t-*"))) == 5
    world.state.topics.create("u")
    stop = threading.Thread(target=world.state.close)
    stop.start()
    gate.set()
    stop.join(PATIENCE_S)
    assert not stop.is_alive()
    with BrokerWorld(data_dir=tmp_path):
        await_removal(tmp_path)


def test_producer_ids_are_never_given_away_again(tmp_path: Path) -> None:
    taken = []
    for _ in range(3):
        with BrokerWorld(data_dir=tmp_path) as world:
            for _ in range(2):
                answer = world.ask("InitProducerId", 4, ASK_FOR_ID)
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                taken.append(answer.producer_id)
    assert len(set(taken)) == 6
    assert taken == sorted(taken)


def test_a_deleted_topic_is_gone_after_a_restart_too(tmp_path: Path) -> None:
    with BrokerWorld(data_dir=tmp_path, topics={"t": 1}) as world:
        world.produce(batch_of(b"a"))
        world.state.topics.delete("t")
    with BrokerWorld(data_dir=tmp_path) as again:
        assert again.state.topics.all() == []


def test_a_new_topic_does_not_find_the_records_of_a_stray_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t-0").mkdir(parents=True)
    (tmp_path / "t-0" / "old").write_text("old")
    with BrokerWorld(data_dir=tmp_path, topics={"t": 1}):
        assert (tmp_path / "t-0.0-stray" / "old").exists()
    assert "belongs to no topic" in caplog.text


def test_the_clean_ends_of_deleted_topics_do_not_pile_up(tmp_path: Path) -> None:
    """B-C8.2: those that a crash kept from being taken out; the others stay."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with BrokerWorld(data_dir=data, topics={"t": 1, "u": 1}) as world:
        fill(world, "t")
        fill(world, "u")
    with BrokerWorld(data_dir=data) as world:
        world.state.topics.delete("t")
        shutil.copytree(data, copy)
    with BrokerWorld(data_dir=copy):
        pass
    (line,) = (copy / ".kafka_cleanshutdown").read_text().splitlines()[2:]
    assert line.startswith("u-0 ")


def test_a_start_tells_of_folders_of_no_topic_and_removes_those_without_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B-C1.1: a crash or a stop leaves the latter, while it makes a topic of many partitions."""
    with BrokerWorld(brokers=2, data_dir=tmp_path, topics={"t": 2, "u": 2}) as world:
        fill(world, "u")
        world.state.topics.create("v", 1, 2)
    for folder in (tmp_path, tmp_path / "node@1"):
        shutil.copytree(folder / "v-0", folder / "new-2")
    for number in range(2):
        shutil.copytree(tmp_path / "t-0", tmp_path / f"new-{number}")
        shutil.copytree(tmp_path / "u-0", tmp_path / f"old-{number}.0-stray")
    (tmp_path / "new-1" / "partition.metadata").rename(tmp_path / "new-1/partition.metadata.tmp")
    (tmp_path / "mine-0").mkdir()
    (tmp_path / "mine-1").mkdir()
    (tmp_path / "mine-1" / "my file").touch()
    with BrokerWorld(brokers=2, data_dir=tmp_path):
        await_removal(tmp_path, "new-*")
        await_removal(tmp_path / "node@1", "new-*")
        folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    stay = {"old-0.0-stray", "old-1.0-stray", "mine-0", "mine-1"}
    assert folders == {"t-0", "t-1", "u-0", "u-1", "v-0", "node@1", *stay}
    (told,) = caplog.messages
    assert "2 folder(s)" in told
    assert "old-0.0-stray" in told


def test_a_folder_that_cannot_be_read_is_let_go_of(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot be read"):
            BrokerWorld(data_dir=tmp_path)


def test_close_may_be_repeated() -> None:
    world = BrokerWorld(topics={"t": 1})
    world.state.close()
    world.state.close()


def test_a_log_is_looked_after_from_its_first_record_on() -> None:
    """B-C4.5, B-C8.1"""
    for discard in (False, True):
        with BrokerWorld(topics={"t": 1}, discard=discard) as world:
            assert not world.state.log_upkeep.has_thread
            world.produce(batch_of(b"a"))
            assert world.state.log_upkeep.has_thread is not discard


def test_what_is_decided_in_a_start_is_not_overwritten_by_what_was_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[str, Any] = {"brokers": 2, "default_replication_factor": 2, "data_dir": tmp_path}
    with Broker(topics={"t": 1}, **words) as broker:
        broker.nodes[1].kill()
    has_decided = threading.Event()
    decide, write = Topics.decide, DataDirectory.write_cluster

    def notice(topics: Topics, decisions: Mapping[Partition, Decision]) -> None:
        decide(topics, decisions)
        has_decided.set()

    def write_late(directory: DataDirectory, *state: Any) -> None:
        has_decided.wait(LONG_ENOUGH_TO_FETCH_S)
        write(directory, *state)

    monkeypatch.setattr(Topics, "decide", notice)
    monkeypatch.setattr(DataDirectory, "write_cluster", write_late)
    with Broker(**words) as again:
        partition = again._running().topics.partition("t", 0)
        assert partition is not None
        wait_for(lambda: partition.isr == [0, 1])
        shutil.copytree(tmp_path, tmp_path.with_name("killed"))
    directory = DataDirectory(tmp_path.with_name("killed"))
    _, (saved,) = directory.read_cluster()
    directory.close()
    assert saved.partitions[0].isr == [0, 1]
