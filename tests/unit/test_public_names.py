"""What `dir` shows of each public class: what users call, and nothing else.

A name that is added here is promised to users: document it, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import contextlib

import pytest

import fastprod
from fastprod import KafkaProducer, ProducerConfig
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.broker import Broker
from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.node import Node as BrokerNode
from fastprod.config import SETTINGS
from fastprod.records import BulkArrays, BulkMetadata, FailedRow, OffsetRange

NAMED_TUPLE = {"count", "index"}
PLUGIN = {"configure", "close"}
PARTITIONER = {*PLUGIN, "partition"}
CONFIG = {"explicit", "proxy", "sasl", "tls", "values"}

OF_CLASSES = {
    fastprod.KafkaProducer: {
        "abort_transaction",
        "append_columns",
        "begin_transaction",
        "close",
        "closed",
        "commit_transaction",
        "config",
        "flush",
        "init_transactions",
        "metrics",
        "partitions_for",
        "purge",
        "send",
        "send_many",
        "send_offsets_to_transaction",
        "transaction",
        "try_send",
        "set_sasl_credentials",
        "warmup",
    },
    fastprod.RecordFuture: {
        "add_callback",
        "add_done_callback",
        "add_errback",
        "cancel",
        "cancelled",
        "done",
        "exception",
        "failed",
        "get",
        "result",
        "running",
        "succeeded",
    },
    BulkFuture: {
        "add_done_callback",
        "arrays",
        "cancel",
        "cancelled",
        "delivered",
        "done",
        "exception",
        "failed_rows",
        "failures",
        "get",
        "result",
        "topic",
    },
    fastprod.Headers: {"add", "all", "append", "freeze", "is_frozen", "last", "remove", "to_list"},
    fastprod.ProducerRecord: {"headers", "key", "partition", "timestamp_ms", "topic", "value"},
    fastprod.ConsumerGroupMetadata: {
        *NAMED_TUPLE,
        "generation_id",
        "group_id",
        "group_instance_id",
        "member_id",
    },
    fastprod.OffsetAndMetadata: {*NAMED_TUPLE, "leader_epoch", "metadata", "offset"},
    fastprod.TopicPartition: {*NAMED_TUPLE, "partition", "topic"},
    fastprod.Node: {*NAMED_TUPLE, "host", "id", "port", "rack"},
    fastprod.PartitionInfo: {
        *NAMED_TUPLE,
        "in_sync_replicas",
        "leader",
        "offline_replicas",
        "partition",
        "replicas",
        "topic",
    },
    fastprod.RecordMetadata: {
        *NAMED_TUPLE,
        "has_offset",
        "has_timestamp",
        "offset",
        "partition",
        "serialized_key_size",
        "serialized_value_size",
        "timestamp",
        "topic",
        "topic_partition",
    },
    BulkMetadata: {*NAMED_TUPLE, "byte_count", "ranges", "record_count", "topic"},
    BulkArrays: {*NAMED_TUPLE, "offsets", "partitions", "timestamps"},
    OffsetRange: {*NAMED_TUPLE, "first_offset", "partition", "record_count", "topic"},
    FailedRow: {*NAMED_TUPLE, "error", "key_size_bytes", "row", "topic", "value_size_bytes"},
    fastprod.Partitioner: PARTITIONER,
    fastprod.RoundRobinPartitioner: PARTITIONER,
    fastprod.ProducerInterceptor: {*PLUGIN, "on_acknowledgement", "on_send"},
    fastprod.MetricsReporter: {*PLUGIN, "report"},
    Broker: {
        "acls",
        "add_user",
        "allow",
        "bootstrap_servers",
        "bootstrap_servers_of",
        "certificate_pem",
        "client_settings",
        "cluster_id",
        "controller_id",
        "create_topic",
        "delete_topic",
        "deny",
        "end_offset",
        "faults",
        "leader",
        "listeners",
        "move_leader",
        "nodes",
        "records",
        "remove_acls",
        "remove_user",
        "replace_certificate",
        "requests",
        "run_retention_now",
        "start",
        "stop",
        "topic_names",
        "users",
    },
    BrokerNode: {"address", "down", "endpoints", "host", "id", "is_up", "kill", "port", "up"},
    FaultVerbs: {
        "close",
        "cut_off",
        "delay",
        "dribble",
        "drop",
        "fail",
        "garble",
        "intercept",
        "lose_reply",
        "reconnect",
        "reset",
        "resume_fetching",
        "resume_reading",
        "stop_fetching",
        "stop_reading",
        "time_out_then_append",
        "truncate",
    },
}


def public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("kind", OF_CLASSES)
def test_a_public_class_shows_what_users_call(kind: type) -> None:
    assert public(kind) == OF_CLASSES[kind]


def test_no_public_class_is_left_out() -> None:
    classes = {
        each for name in fastprod.__all__ if isinstance(each := getattr(fastprod, name), type)
    }
    assert classes - {ProducerConfig} <= OF_CLASSES.keys()


def test_a_config_shows_the_settings() -> None:
    assert public(ProducerConfig(bootstrap_servers="127.0.0.1:1")) == {*SETTINGS, *CONFIG}


def test_a_producer_shows_what_its_class_does() -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers="127.0.0.1:1")) as producer:
        assert public(producer) == OF_CLASSES[KafkaProducer]


def test_a_broker_and_what_it_hands_out_show_what_their_classes_do() -> None:
    with Broker() as broker:
        for each in (broker, broker.nodes[0], broker.faults):
            assert public(each) == OF_CLASSES[type(each)]
