"""DescribeLogDirs: a node's folder of logs, and their sizes (B-D4.11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.server.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.error_codes import CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, NONE
from fastprod.protocol.messages.replica.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from support.broker.replica_world import replicated
from support.broker.world import BrokerWorld, batch_of

VERSIONS = range(1, 6)


def describe(
    world: BrokerWorld, asked: dict[str, list[int]] | None = None, version: int = 5, node: int = 0
) -> Any:
    topics = None
    if asked is not None:
        topics = [DescribableLogDirTopic(topic=t, partitions=p) for t, p in asked.items()]
    return world.ask("DescribeLogDirs", version, DescribeLogDirsRequest(topics=topics), node)


def sizes(result: Any) -> dict[str, list[tuple[int, int]]]:
    """Partitions and sizes of each topic; nothing lags, and no log is to replace another."""
    assert result.error_code == NONE
    found = [each for topic in result.topics for each in topic.partitions]
    assert all((each.offset_lag, each.is_future_key) == (0, False) for each in found)
    return {
        topic.name: [(each.partition_index, each.partition_size) for each in topic.partitions]
        for topic in result.topics
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_the_size_of_each_log(tmp_path: Path, version: int) -> None:
    """B-D4.11"""
    with BrokerWorld(data_dir=tmp_path, topics={"t": 2, "u": 1}) as world:
        batch = batch_of(b"a" * 1000)
        assert world.produce(batch, "t", 1).error_code == NONE
        answer = describe(world, version=version)
        (result,) = answer.results
        assert sizes(result) == {"t": [(0, 0), (1, len(batch))], "u": [(0, 0)]}
        assert result.log_dir == str(tmp_path)
        size = sum(each.stat().st_size for each in (tmp_path / "t-1").glob("*.log"))
        assert size == len(batch)
        assert (0 < result.usable_bytes <= result.total_bytes) == (version >= 4)
        assert not result.is_cordoned


def test_only_what_is_asked_about_is_told() -> None:
    """B-D4.11: of an unknown topic or partition nothing, and each once."""
    with BrokerWorld(topics={"t": 3, "u": 1}) as world:
        (result,) = describe(world, {"t": [2, 0, 2, 7], "none": [0]}).results
        assert sizes(result) == {"t": [(0, 0), (2, 0)]}
        (result,) = describe(world, {}).results
        assert sizes(result) == {}
        assert (result.log_dir, result.total_bytes, result.usable_bytes) == ("memory", -1, -1)


def test_each_node_tells_of_its_own_logs(tmp_path: Path) -> None:
    """B-D4.11: one that all nodes share lies in the folder of node 0."""
    with BrokerWorld(brokers=3, data_dir=tmp_path) as world:
        replicated(world)
        world.state.topics.create("shared", assignment={0: [1]})
        batch = batch_of(b"a")
        assert world.produce(batch).error_code == NONE
        found = {
            node: {each.log_dir: sizes(each) for each in describe(world, node=node).results}
            for node in range(3)
        }
        copy = {"t": [(0, len(batch))]}
        assert found == {
            0: {str(tmp_path): copy},
            1: {str(tmp_path / "node@1"): copy, str(tmp_path): {"shared": [(0, 0)]}},
            2: {str(tmp_path / "node@2"): copy},
        }


def test_a_folder_that_cannot_be_looked_at_has_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def statvfs(path: object) -> None:
        raise OSError(5, "it is gone", str(path))

    with BrokerWorld(data_dir=tmp_path, topics={"t": 1}) as world:
        monkeypatch.setattr("os.statvfs", statvfs)
        (result,) = describe(world).results
        assert (result.error_code, result.topics) == (KAFKA_STORAGE_ERROR, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_describe_the_cluster_is_told_nothing(version: int) -> None:
    """B-D6.3: before version 3 there is no code, and clients take the empty answer for one."""
    with BrokerWorld(topics={"t": 1}) as world:

        def may(principal: str, operation: Operation) -> None:
            place = (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
            world.state.authorizer.add([Acl(principal, Permission.ALLOW, operation, *place)])

        may("User:root", Operation.ALL)
        world.principal = "User:ada"
        answer = describe(world, version=version)
        code = CLUSTER_AUTHORIZATION_FAILED if version >= 3 else NONE
        assert (answer.error_code, answer.results) == (code, [])
        may("User:ada", Operation.DESCRIBE)
        assert len(describe(world, version=version).results) == 1
