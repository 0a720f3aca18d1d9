"""fastprod: a Kafka producer for Python services that need low latency and high throughput."""

from fastprod._core.delivery.future import RecordFuture
from fastprod.config import ProducerConfig
from fastprod.interceptors import ProducerInterceptor
from fastprod.metrics_reporter import MetricsReporter
from fastprod.partitioner import Partitioner, RoundRobinPartitioner
from fastprod.producer import KafkaProducer
from fastprod.records import (
    ConsumerGroupMetadata,
    Headers,
    Node,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)
from fastprod.version import VERSION as __version__

__all__ = [
    "ConsumerGroupMetadata",
    "Headers",
    "KafkaProducer",
    "MetricsReporter",
    "Node",
    "OffsetAndMetadata",
    "PartitionInfo",
    "Partitioner",
    "ProducerConfig",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordFuture",
    "RecordMetadata",
    "RoundRobinPartitioner",
    "TopicPartition",
    "__version__",
]
