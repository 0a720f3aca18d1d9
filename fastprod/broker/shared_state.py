"""What all nodes of a broker share: topics, logs, parked operations, the handlers of the APIs."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.apis.call import ApiHandler
from fastprod.broker.apis.describe_configs import DescribeConfigsApi
from fastprod.broker.apis.fetch import FetchApi
from fastprod.broker.apis.find_coordinator import FindCoordinatorApi
from fastprod.broker.apis.init_producer_id import InitProducerIdApi
from fastprod.broker.apis.list_offsets import ListOffsetsApi
from fastprod.broker.apis.metadata import DescribeClusterApi, MetadataApi
from fastprod.broker.apis.produce import ProduceApi
from fastprod.broker.apis.sasl import SaslAuthenticateApi, SaslHandshakeApi
from fastprod.broker.apis.topics import CreateTopicsApi, DeleteTopicsApi
from fastprod.broker.clock import Clock, SystemClock
from fastprod.broker.cluster import Cluster, new_cluster_id
from fastprod.broker.config import BrokerConfig
from fastprod.broker.connection import Connection
from fastprod.broker.data_directory import DataDirectory
from fastprod.broker.faults.hooks import Faults
from fastprod.broker.kafka_apis import KafkaApis
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_directory import LogDirectory
from fastprod.broker.log.log_upkeep import LogUpkeep
from fastprod.broker.producer_ids import ProducerIds
from fastprod.broker.purgatory import DelayedOperationPurgatory
from fastprod.broker.replica_manager import ReplicaManager
from fastprod.broker.request_log import RequestLog
from fastprod.broker.side_track import SideTrack
from fastprod.broker.topic_config import TopicConfig
from fastprod.broker.topics import Topics

_log = logging.getLogger(__name__)


class SharedState:
    """The broker without its sockets. Any thread; close it once.

    Args:
        config: of every node.
        clock: what records are stamped by.
        node_ids: the nodes, by their numbers.
        data_dir: logs and topics are kept there and found again; None: in memory.
        table: versions of the APIs.
        faults: asked about each request.

    Raises:
        ConfigError: the folder is in use, or damaged.
        OSError: the folder cannot be used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        node_ids: Sequence[int],
        data_dir: Path | None,
        table: ApiTable,
        faults: Faults,
    ) -> None:
        self.config = config
        self.clock = clock
        self.table = table
        self._directory = None if data_dir is None else DataDirectory(data_dir)
        self._log_directory = None if data_dir is None else LogDirectory(data_dir)
        self.log_upkeep = LogUpkeep(
            clock,
            config.log_retention_check_interval_ms,
            config.sync_interval_ms if config.sync == "interval" else None,
        )
        self._close_lock = threading.Lock()
        self._is_closed = False
        try:
            self._restore(node_ids)
        except BaseException:
            self.log_upkeep.close()
            if self._directory is not None:
                self._directory.close()
            raise
        # A client means its own clock when it says how long a fetch may wait.
        self.purgatory = DelayedOperationPurgatory(
            "fastprod-broker-fetch-timer", SystemClock(), _operation_failed
        )
        self.side_track = SideTrack("fastprod-broker-side-track")
        self.topic_track = SideTrack("fastprod-broker-topic-track")
        self.replica_manager = ReplicaManager(self.topics)
        self.request_log = RequestLog(config.request_log_size)
        self.apis = KafkaApis(table, self._handlers(), faults, self.request_log)

    def _restore(self, node_ids: Sequence[int]) -> None:
        directory = self._directory
        cluster_id, saved = (None, []) if directory is None else directory.read_cluster()
        if directory is not None:
            directory.remove_deleted()
        self._is_restoring = True
        cluster_id = cluster_id or new_cluster_id()
        self.topics = Topics(
            self.config,
            node_ids,
            self._open_log,
            self.clock.monotonic_ns,
            None if directory is None else directory.write_topics,
        )
        self.cluster = Cluster(cluster_id, node_ids, self.topics)
        for topic in saved:
            self.topics.restore(topic)
        self._is_restoring = False
        if directory is not None:
            directory.write_cluster(cluster_id, [each.saved() for each in self.topics.all()])
        self.producer_ids = (
            ProducerIds()
            if directory is None
            else ProducerIds(directory.read_next_producer_id(), directory.write_next_producer_id)
        )

    def _open_log(self, topic: str, partition: int, topic_id: bytes, config: TopicConfig) -> Log:
        directory = self._directory
        if directory is not None and not self._is_restoring:
            stray = directory.set_aside_stray(directory.path / f"{topic}-{partition}")
            if stray is not None:
                _log.warning("%s belongs to no topic; it is called %s now", topic, stray)
        log = Log(
            self._log_directory,
            topic,
            partition,
            config.log_config(),
            self.clock,
            self.config.discard,
            UUID(bytes=topic_id),
        )
        if not log.discard:
            self.log_upkeep.watch(log)
        return log

    def _handlers(self) -> Mapping[int, ApiHandler]:
        replicas, purgatory, cluster = self.replica_manager, self.purgatory, self.cluster
        by_name: dict[str, ApiHandler] = {
            "Produce": ProduceApi(replicas, purgatory, cluster, self.side_track),
            "Fetch": FetchApi(replicas, purgatory, self.config, self._directory is not None),
            "ListOffsets": ListOffsetsApi(replicas),
            "Metadata": MetadataApi(
                cluster, self.config, self.clock.monotonic_ns, self.topic_track
            ),
            "FindCoordinator": FindCoordinatorApi(cluster),
            "CreateTopics": CreateTopicsApi(cluster, self.config, self.topic_track),
            "DeleteTopics": DeleteTopicsApi(cluster, purgatory, self.topic_track),
            "InitProducerId": InitProducerIdApi(self.producer_ids),
            "DescribeConfigs": DescribeConfigsApi(cluster, self.config),
            "DescribeCluster": DescribeClusterApi(cluster),
            "SaslHandshake": SaslHandshakeApi(),
            "SaslAuthenticate": SaslAuthenticateApi(),
        }
        return {api.key: by_name[api.name] for api in APIS.values() if api.name in by_name}

    def connection_ended(self, connection: Connection) -> None:
        """Forget what its client waited for."""
        self.purgatory.withdraw_all(connection)

    def begin_close(self) -> None:
        """Answer what is parked, and let no topic be made any more; what is being made ends soon.

        May be repeated.

        Raises:
            TimeoutError: the timer's thread has not ended within 10 s.
        """
        self.topics.refuse_changes()
        self.purgatory.close()

    def close(self) -> None:
        """Answer what is parked, close the logs, let go of the folder. May be repeated.

        Raises:
            TimeoutError: a thread has not ended within 10 s; everything else is closed.
        """
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
        # From the last to the first, and each whatever the ones before it raise.
        with contextlib.ExitStack() as steps:
            if self._directory is not None:
                steps.callback(self._directory.close)
            if self._log_directory is not None:
                steps.callback(self._log_directory.save)
            steps.callback(self.topics.close)
            steps.callback(self.log_upkeep.close)
            steps.callback(self.topic_track.close)
            steps.callback(self.side_track.close)
            steps.callback(self.begin_close)

    def abandon(self) -> None:
        """In the child of a fork: let go of the folder; it stays the parent's."""
        if self._directory is not None:
            self._directory.abandon()


def _operation_failed(error: BaseException) -> None:
    _log.error("a parked operation failed", exc_info=error)
