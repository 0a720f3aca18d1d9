"""What all nodes of a broker share: topics, logs, parked operations, the handlers of the APIs."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.cluster.cluster import Cluster, new_cluster_id
from fastprod.broker.cluster.data_directory import DataDirectory
from fastprod.broker.cluster.partition import Partition, SavedPartition
from fastprod.broker.cluster.producer_ids import ProducerIds
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.cluster.topics import INTERNAL_TOPICS, SavedTopic, Topic, Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.group_coordinator import GroupCoordinator
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.faults.hooks import Faults
from fastprod.broker.listeners import PROTOCOLS
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_directory import LogDirectory
from fastprod.broker.log.log_upkeep import LogUpkeep
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.connection_quotas import ConnectionQuotas
from fastprod.broker.network.sasl.users import Users
from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.replication import Replication
from fastprod.broker.server.apis.acls import CreateAclsApi, DeleteAclsApi, DescribeAclsApi
from fastprod.broker.server.apis.alter_configs import AlterConfigsApi, IncrementalAlterConfigsApi
from fastprod.broker.server.apis.call import ApiHandler
from fastprod.broker.server.apis.client_quotas import AlterClientQuotasApi, DescribeClientQuotasApi
from fastprod.broker.server.apis.create_partitions import CreatePartitionsApi
from fastprod.broker.server.apis.delete_records import DeleteRecordsApi
from fastprod.broker.server.apis.describe_configs import DescribeConfigsApi
from fastprod.broker.server.apis.fetch import FetchApi
from fastprod.broker.server.apis.find_coordinator import FindCoordinatorApi
from fastprod.broker.server.apis.group.consumer_groups import (
    ConsumerGroupDescribeApi,
    ConsumerGroupHeartbeatApi,
)
from fastprod.broker.server.apis.group.listing import (
    DeleteGroupsApi,
    DescribeGroupsApi,
    ListGroupsApi,
)
from fastprod.broker.server.apis.group.membership import (
    HeartbeatApi,
    JoinGroupApi,
    LeaveGroupApi,
    SyncGroupApi,
)
from fastprod.broker.server.apis.group.offsets import (
    OffsetCommitApi,
    OffsetDeleteApi,
    OffsetFetchApi,
)
from fastprod.broker.server.apis.init_producer_id import InitProducerIdApi
from fastprod.broker.server.apis.list_offsets import ListOffsetsApi
from fastprod.broker.server.apis.metadata import DescribeClusterApi, MetadataApi
from fastprod.broker.server.apis.produce import ProduceApi
from fastprod.broker.server.apis.replica.elections import ElectLeadersApi
from fastprod.broker.server.apis.replica.leader_epochs import OffsetForLeaderEpochApi
from fastprod.broker.server.apis.replica.log_dirs import DescribeLogDirsApi
from fastprod.broker.server.apis.replica.reassignments import (
    AlterPartitionReassignmentsApi,
    ListPartitionReassignmentsApi,
)
from fastprod.broker.server.apis.sasl import SaslAuthenticateApi, SaslHandshakeApi
from fastprod.broker.server.apis.scram_credentials import (
    AlterUserScramCredentialsApi,
    DescribeUserScramCredentialsApi,
)
from fastprod.broker.server.apis.topics import CreateTopicsApi, DeleteTopicsApi
from fastprod.broker.server.apis.transaction.contents import (
    AddOffsetsToTxnApi,
    AddPartitionsToTxnApi,
    TxnOffsetCommitApi,
)
from fastprod.broker.server.apis.transaction.ending import EndTxnApi, WriteTxnMarkersApi
from fastprod.broker.server.apis.transaction.listing import (
    DescribeProducersApi,
    DescribeTransactionsApi,
    ListTransactionsApi,
)
from fastprod.broker.server.authorizer import Authorizer
from fastprod.broker.server.dynamic_settings import DynamicSettings
from fastprod.broker.server.ip_quotas import IpQuotas
from fastprod.broker.server.kafka_apis import KafkaApis
from fastprod.broker.server.replica_manager import ReplicaManager
from fastprod.broker.server.request_log import RequestLog
from fastprod.broker.server.sasl_exchanges import SaslExchanges
from fastprod.broker.threads.clock import Clock, SystemClock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory

if TYPE_CHECKING:
    from fastprod.broker.replica.high_watermark_checkpoints import HighWatermarkCheckpoints

_log = logging.getLogger(__name__)

_UNCLEAN = "unclean.leader.election.enable"


class NodeServices:
    """The broker without its sockets. Any thread; close it once.

    Args:
        config: of every node.
        clock: gives the records' timestamps.
        node_ids: the nodes, by their numbers.
        data_dir: logs and topics are kept there and found again; None: in memory.
        table: versions of the APIs.
        faults: asked about each request.
        listener_names: of each node; by default those that are called like their protocols.
        users: who may log in; None: nobody.
        authorizer: says who may do what; None: everybody may do everything, until somebody says
            otherwise.

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
        listener_names: Collection[str] = PROTOCOLS,
        users: Users | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.table = table
        self.users = users or Users()
        self.authorizer = authorizer or Authorizer()
        self._dynamic_settings = DynamicSettings(config, node_ids, listener_names)
        self._ip_quotas = IpQuotas()
        self._directory = None if data_dir is None else DataDirectory(data_dir)
        self._log_directory = None if data_dir is None else LogDirectory(data_dir)
        self._log_directories: dict[int, LogDirectory] = {}
        self.log_upkeep = _new_upkeep(config, clock)
        # A client's time limits of fetches are real time, whatever `clock` says.
        self.purgatory = DelayedOperationPurgatory(
            "fastprod-broker-fetch-timer", SystemClock(), _operation_failed
        )
        self.replication = Replication(
            node_ids,
            clock,
            config.replica_lag_time_max_ms,
            config.replica_fetch_max_bytes,
            self.purgatory.check_and_complete,
            self._open_further_replica,
        )
        self._high_watermarks = self._new_checkpoints()
        self._close_lock = threading.Lock()
        self._is_closed = False
        try:
            self._restore(node_ids)
        except BaseException:
            self.log_upkeep.close()
            self.replication.close()
            if self._directory is not None:
                self._directory.close()
            raise
        self._make_workers()
        # From now on: what it decides is not overwritten by what was restored, and folders that it
        # removes are not taken for ones that an earlier run has left.
        self.replication.decide_by(self.cluster.decide)
        self._coordinate()
        self.replica_manager = ReplicaManager(self.topics, self.transaction_coordinator)
        self.request_log = RequestLog(config.request_log_size)
        self.sasl_exchanges = SaslExchanges(faults, self.request_log)
        handlers, log = self._handlers(), self.request_log
        self.apis = KafkaApis(table, handlers, faults, log, self.authorizer, self.topics)
        self.transaction_coordinator.begin()
        self.cluster.when_moved(self.wake_all, self.purgatory.check_and_complete)

    def _make_workers(self) -> None:
        """And begin to remove the folders that an earlier run has left."""
        self.overflow_worker = OverflowWorker("fastprod-broker-overflow")
        self.topic_worker = OverflowWorker("fastprod-broker-topics")
        self._removal_worker = OverflowWorker("fastprod-broker-removal")
        if self._directory is not None and (left := self._directory.deleted_folders()):
            self._removal_worker.put(lambda: self._remove(left))

    def _new_checkpoints(self) -> HighWatermarkCheckpoints | None:
        if self._directory is None:
            return None
        # Here: a broker in memory is to take little of it.
        from fastprod.broker.replica.high_watermark_checkpoints import (  # noqa: PLC0415
            HighWatermarkCheckpoints,
        )

        return HighWatermarkCheckpoints(
            self._directory.logs_of,
            self.replication.high_watermarks,
            self.replication.run_later,
            self.config.replica_high_watermark_checkpoint_interval_ms,
        )

    def _coordinate(self) -> None:
        # Sessions and rebalances are the broker's own time limits.
        self._group_purgatory = DelayedOperationPurgatory(
            "fastprod-broker-group-timer", self.clock, _operation_failed
        )
        self._group_worker = OverflowWorker("fastprod-broker-groups")
        self.group_coordinator = GroupCoordinator(
            self.config,
            self.topics,
            self.clock,
            self._group_purgatory,
            self._group_worker,
            self.purgatory.check_and_complete,
        )
        self.transaction_coordinator = TransactionCoordinator(
            self.config,
            self.topics,
            self.clock,
            self._group_purgatory,
            self._group_worker,
            self.producer_ids,
            self.group_coordinator.offsets,
            self.purgatory.check_and_complete,
        )

    def leaders_moved(self) -> None:
        """Have the coordinators follow the leaders of their partitions. Does not block."""
        self.group_coordinator.manager.drop_moved()
        self.transaction_coordinator.leaders_moved()

    def wake_all(self) -> None:
        """Complete what waits for partitions that have another leader, groups too."""
        for topic in self.topics.all():
            for partition in topic.partitions:
                self.purgatory.check_and_complete(partition)
        self.leaders_moved()

    def _restore(self, node_ids: Sequence[int]) -> None:
        directory = self._directory
        cluster_id, saved = (None, []) if directory is None else directory.read_cluster()
        if directory is not None:
            directory.check_nodes(saved, node_ids)
            directory.set_aside_deleted()
            directory.set_aside_removed(saved, node_ids)
        self._is_restoring = True
        cluster_id = cluster_id or new_cluster_id()
        self.topics = Topics(
            self.config,
            node_ids,
            self._open_log,
            self.clock.monotonic_ns,
            None if directory is None else directory.write_topics,
            self._open_replicas,
        )
        self.cluster = Cluster(
            cluster_id,
            node_ids,
            self.topics,
            self.replication.node_changed,
            self.replication.retry_later,
        )
        for topic in saved:
            self.topics.restore(topic)
        self._is_restoring = False
        if self._high_watermarks is not None:
            self._high_watermarks.begin()
        if directory is not None:
            restored = [each.saved() for each in self.topics.all()]
            directory.write_cluster(cluster_id, restored)
            self._forget_others(directory, restored)
        self.producer_ids = (
            ProducerIds()
            if directory is None
            else ProducerIds(directory.read_next_producer_id(), directory.write_next_producer_id)
        )

    def _forget_others(self, directory: DataDirectory, topics: Sequence[SavedTopic]) -> None:
        """Forget, and log, what the folder has of other topics than these, which are all."""
        for each in (self._log_directory, *self._log_directories.values()):
            if each is not None:
                each.forget_unasked()
        strays = directory.find_strays(topics)
        if strays:
            _log.warning(
                "%s holds %d folder(s) of partitions of no topic, such as %s; nobody reads them: "
                "remove them, or keep them elsewhere",
                directory.path,
                len(strays),
                strays[0],
            )

    def _remove(self, folders: Sequence[Path]) -> None:
        """Remove folders that an earlier run deleted; a stop leaves the rest to the next start."""
        # Here: it loads compression that a broker in memory does not need.
        import shutil  # noqa: PLC0415

        for folder in folders:
            if self._removal_worker.is_closed:
                return
            try:
                shutil.rmtree(folder)
            except OSError as error:
                _log.warning("%s stays: %s", folder, error)

    def _open_log(self, topic: str, partition: int, topic_id: bytes, config: TopicConfig) -> Log:
        self._set_aside_stray(topic, partition, 0)
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

    def _set_aside_stray(self, topic: str, partition: int, node_id: int) -> None:
        directory = self._directory
        if directory is not None and not self._is_restoring:
            folder = directory.logs_of(node_id) / f"{topic}-{partition}"
            stray = directory.set_aside_stray(folder)
            if stray is not None:
                _log.warning("%s belongs to no topic; it is called %s now", topic, stray)

    def _open_replicas(
        self, topic: Topic, saved: SavedPartition, live: Sequence[int]
    ) -> Partition | None:
        """A partition with a log for each replica; None: they share one.

        They do where nothing is kept, and in topics that were made before there were replicas.
        """
        if self.config.discard or (self._is_restoring and saved.isr is None):
            return None
        index, is_unclean = len(topic.partitions), topic.config.text(_UNCLEAN) == "true"
        logs = {id: self._open_replica(topic, index, id) for id in saved.replicas}
        return self.replication.new_partition(topic.name, index, logs, live, saved.isr, is_unclean)

    def _open_replica(self, topic: Topic, index: int, node_id: int) -> ReplicaLog:
        self._set_aside_stray(topic.name, index, node_id)
        directory, config = self._log_directory_of(node_id), topic.config.log_config()
        place = (directory, topic.name, index, config, self.clock, UUID(bytes=topic.id))
        if self._high_watermarks is None:
            log = ReplicaLog(*place)
        else:
            log = ReplicaLog(*place, self._high_watermarks.moved)
            if self._is_restoring:
                log.raise_high_watermark(self._high_watermarks.kept(node_id, topic.name, index))
        self.log_upkeep.watch(log)
        return log

    def _open_further_replica(self, name: str, index: int, node_id: int) -> ReplicaLog:
        topic = self.topics.get(name)
        assert topic is not None
        return self._open_replica(topic, index, node_id)

    def _log_directory_of(self, node_id: int) -> LogDirectory | None:
        if self._directory is None or node_id == 0:
            return self._log_directory
        found = self._log_directories.get(node_id)
        if found is None:
            path = self._directory.logs_of(node_id)
            path.mkdir(exist_ok=True)
            found = self._log_directories[node_id] = LogDirectory(path)
        return found

    def _handlers(self) -> Mapping[int, ApiHandler]:
        replicas, purgatory, cluster = self.replica_manager, self.purgatory, self.cluster
        groups, transactions = self.group_coordinator, self.transaction_coordinator
        keeps_files = self._directory is not None
        by_name: dict[str, ApiHandler] = {
            "Produce": ProduceApi(replicas, purgatory, cluster, self.overflow_worker),
            "Fetch": FetchApi(replicas, purgatory, cluster, self.config, keeps_files),
            "ListOffsets": ListOffsetsApi(replicas),
            "OffsetForLeaderEpoch": OffsetForLeaderEpochApi(replicas),
            "ElectLeaders": ElectLeadersApi(cluster, self.leader_moved),
            "AlterPartitionReassignments": AlterPartitionReassignmentsApi(cluster),
            "ListPartitionReassignments": ListPartitionReassignmentsApi(self.topics),
            "Metadata": MetadataApi(
                cluster, self.config, self.clock.monotonic_ns, self.topic_worker
            ),
            "FindCoordinator": FindCoordinatorApi(
                cluster, groups.manager, transactions.manager, self.topic_worker, keeps_files
            ),
            "JoinGroup": JoinGroupApi(groups),
            "SyncGroup": SyncGroupApi(groups),
            "Heartbeat": HeartbeatApi(groups),
            "LeaveGroup": LeaveGroupApi(groups),
            "OffsetCommit": OffsetCommitApi(groups.offsets, self.topics, self.clock.time_ms),
            "OffsetFetch": OffsetFetchApi(groups.offsets, self.topics),
            "ConsumerGroupHeartbeat": ConsumerGroupHeartbeatApi(groups),
            "ConsumerGroupDescribe": ConsumerGroupDescribeApi(groups, self.topics),
            "OffsetDelete": OffsetDeleteApi(groups.offsets, self.topics),
            "ListGroups": ListGroupsApi(groups),
            "DescribeGroups": DescribeGroupsApi(groups),
            "DeleteGroups": DeleteGroupsApi(groups),
            "InitProducerId": InitProducerIdApi(self.producer_ids, transactions),
            "AddPartitionsToTxn": AddPartitionsToTxnApi(transactions, self.topics),
            "AddOffsetsToTxn": AddOffsetsToTxnApi(
                transactions, groups.manager, self.topics, self.topic_worker, keeps_files
            ),
            "TxnOffsetCommit": TxnOffsetCommitApi(
                transactions, groups, self.topics, self.clock.time_ms
            ),
            "EndTxn": EndTxnApi(transactions),
            "WriteTxnMarkers": WriteTxnMarkersApi(
                transactions.markers, self.topics, purgatory, self.config.request_timeout_ms
            ),
            "ListTransactions": ListTransactionsApi(transactions, self.clock.time_ms),
            "DescribeTransactions": DescribeTransactionsApi(transactions),
            "DescribeProducers": DescribeProducersApi(replicas),
            **self._admin_handlers(),
        }
        return {api.key: by_name[api.name] for api in APIS.values() if api.name in by_name}

    def _admin_handlers(self) -> dict[str, ApiHandler]:
        """What changes topics, settings and rights."""
        cluster = self.cluster
        return {
            "CreateTopics": CreateTopicsApi(cluster, self.config, self.topic_worker),
            "CreatePartitions": CreatePartitionsApi(cluster, self.topic_worker),
            "DeleteRecords": DeleteRecordsApi(
                self.replica_manager, self.topics, self.purgatory.check_and_complete
            ),
            "DeleteTopics": DeleteTopicsApi(cluster, self.topic_deleted, self.topic_worker),
            "DescribeConfigs": DescribeConfigsApi(cluster, self.config, self._dynamic_settings),
            "IncrementalAlterConfigs": IncrementalAlterConfigsApi(
                self._dynamic_settings, self.topics, self.purgatory.check_and_complete
            ),
            "AlterConfigs": AlterConfigsApi(
                self._dynamic_settings, self.topics, self.purgatory.check_and_complete
            ),
            "DescribeClientQuotas": DescribeClientQuotasApi(self._ip_quotas),
            "AlterClientQuotas": AlterClientQuotasApi(self._ip_quotas),
            "DescribeCluster": DescribeClusterApi(cluster),
            "DescribeLogDirs": DescribeLogDirsApi(
                self.topics, None if self._directory is None else self._directory.logs_of
            ),
            "DescribeAcls": DescribeAclsApi(self.authorizer),
            "CreateAcls": CreateAclsApi(self.authorizer),
            "DeleteAcls": DeleteAclsApi(self.authorizer),
            "DescribeUserScramCredentials": DescribeUserScramCredentialsApi(self.users),
            "AlterUserScramCredentials": AlterUserScramCredentialsApi(self.users),
            "SaslHandshake": SaslHandshakeApi(),
            "SaslAuthenticate": SaslAuthenticateApi(),
        }

    def topic_deleted(self, topic: Topic) -> None:
        """End fetches that wait for a deleted topic, and forget how far it was read (B-D4.3)."""
        for partition in topic.partitions:
            self.purgatory.check_and_complete(partition)
        self.group_coordinator.offsets.topics_deleted((topic.name,))

    def leader_moved(self, partition: Partition) -> None:
        """End what waits for the old leader of a partition."""
        self.purgatory.check_and_complete(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.leaders_moved()

    def limit_connections(self, node_id: int, quotas: ConnectionQuotas) -> None:
        """Have `quotas` follow what clients change of a node's limits (B-A8.5)."""
        self._dynamic_settings.attach(node_id, quotas)
        self._ip_quotas.attach(node_id, quotas)

    def connection_ended(self, connection: Connection) -> None:
        """Drop the parked requests of a connection that has ended."""
        self.purgatory.withdraw_all(connection)

    def begin_close(self) -> None:
        """Answer what is parked, and refuse new topics; what is being made ends soon.

        May be repeated.

        Raises:
            TimeoutError: the timer's thread has not ended within 10 s.
        """
        self.topics.refuse_changes()
        self.transaction_coordinator.close()
        self.group_coordinator.close()
        with contextlib.ExitStack() as steps:
            steps.callback(self.purgatory.close)
            steps.callback(self._group_purgatory.close)

    def close(self) -> None:
        """Answer what is parked, close the logs, release the folder. May be repeated.

        Raises:
            TimeoutError: a thread has not ended within 10 s; everything else is closed.
        """
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
        # In reverse order, and each of them even if others raise.
        with contextlib.ExitStack() as steps:
            if self._directory is not None:
                steps.callback(self._directory.close)
            if self._log_directory is not None:
                steps.callback(self._log_directory.save)
            for each in self._log_directories.values():
                steps.callback(each.save)
            steps.callback(self.topics.close)
            if self._high_watermarks is not None:
                steps.callback(self._high_watermarks.save)
            steps.callback(self.replication.close)
            steps.callback(self.log_upkeep.close)
            steps.callback(self.topic_worker.close)
            steps.callback(self._removal_worker.close)
            steps.callback(self.overflow_worker.close)
            steps.callback(self._group_worker.close)
            steps.callback(self.begin_close)

    def abandon(self) -> None:
        """In the child of a fork: close the folder's descriptor; the parent keeps the folder."""
        if self._directory is not None:
            self._directory.abandon()


def _new_upkeep(config: BrokerConfig, clock: Clock) -> LogUpkeep:
    return LogUpkeep(
        clock,
        config.log_retention_check_interval_ms,
        config.sync_interval_ms if config.sync == "interval" else None,
        config.log_cleaner_backoff_ms if config.log_cleaner_enable else None,
    )


def _operation_failed(error: BaseException) -> None:
    _log.error("a parked operation failed", exc_info=error)
