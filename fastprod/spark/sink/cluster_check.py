"""Asks the cluster for the topic, once on the driver, before any task."""

from __future__ import annotations

import contextlib
from typing import Final

from fastprod.errors import KafkaError
from fastprod.producer import KafkaProducer
from fastprod.spark.sink.options import SinkOptions

CHECK_TIMEOUT_MS: Final = 10_000

_passed: set[tuple[object, ...]] = set()


def check_cluster(options: SinkOptions) -> None:
    """Connect, and look for the topic if an option names it, else get a producer id.

    With neither (topics by column, enable.idempotence=false) only the addresses are resolved.

    A successful check is not repeated in this process: a query asks twice in each micro-batch.

    Raises:
        KafkaError: no broker answers, or the brokers do not have the topic.

    Blocks: up to 10 s.
    """
    asked = (options.settings, options.topic)
    if asked in _passed:
        return
    settings = dict(options.settings)
    max_block_ms = min(int(settings.get("max.block.ms", CHECK_TIMEOUT_MS)), CHECK_TIMEOUT_MS)
    settings["max.block.ms"] = str(max_block_ms)
    producer = KafkaProducer(settings)
    try:
        if options.topic is not None:
            producer.partitions_for(options.topic)
        else:
            producer.warmup()
    except KafkaError as error:
        error.add_note(
            "The driver asked, before any task. If only the executors can reach the brokers, set "
            "the option fastprod.validate to false."
        )
        raise
    finally:
        with contextlib.suppress(KafkaError):
            producer.close(0)
    _passed.add(asked)
