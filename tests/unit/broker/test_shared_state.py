"""SharedState: what a folder keeps over restarts."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest

from broker_world import BrokerWorld, batch_of
from fastprod.broker.messages.init_producer_id import InitProducerIdRequest
from fastprod.errors import ConfigError

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


def test_leader_epochs_grow_with_each_restart_without_a_change(tmp_path: Path) -> None:
    """C8.6"""
    found = []
    for _ in range(3):
        with BrokerWorld(data_dir=tmp_path, topics={"t": 1}) as world:
            partition = world.state.topics.partition("t", 0)
            assert partition is not None
            found.append(partition.leader_epoch)
    assert found == [0, 1, 2]


def test_no_leader_epoch_comes_again_after_a_restart(tmp_path: Path) -> None:
    """C8.6: neither one that clients were told of, nor one that a crash kept from being saved."""
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
    """C8.2: of each partition the segment, what is in its indexes, and its folder's names."""
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
    """C1.1: a folder of a topic that is deleted or unknown gets a longer name."""
    name = "n" * 249
    (tmp_path / f"{name}-0").mkdir(parents=True)
    with BrokerWorld(data_dir=tmp_path, topics={name: 11}) as world:
        assert len(list(tmp_path.glob("*-stray"))) == 1
        world.state.topics.delete(name)
        assert list(tmp_path.glob(f"{name[:200]}*-[0-9]*")) == []


def test_a_deletion_that_a_crash_cut_short_is_finished(tmp_path: Path) -> None:
    """C1.2"""
    (tmp_path / f"t-0.{uuid.uuid4().hex}-delete" / "in").mkdir(parents=True)
    (tmp_path / "my-delete").mkdir()
    with BrokerWorld(data_dir=tmp_path):
        assert [each.name for each in tmp_path.glob("*-delete")] == ["my-delete"]


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
    """C4.5, C8.1"""
    for discard in (False, True):
        with BrokerWorld(topics={"t": 1}, discard=discard) as world:
            assert not world.state.log_upkeep.has_thread
            world.produce(batch_of(b"a"))
            assert world.state.log_upkeep.has_thread is not discard
