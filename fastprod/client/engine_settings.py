"""From a producer's configuration to the engine's settings: plain numbers, converted once."""

from __future__ import annotations

import os
from typing import Any

from fastprod.config import STICKY_BATCH_SIZE, ProducerConfig, linger_bound_ms
from fastprod.system_random import random_seed


def engine_settings(config: ProducerConfig) -> dict[str, Any]:
    """The settings of the engine: plain numbers."""
    codec = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return {
        "client_id": config.client_id,
        "transactional_id": config.transactional_id,
        "buffer_bytes": config.buffer_memory,
        "max_receive_bytes": config.max_receive_bytes,
        "force_poll": os.environ.get("FASTPROD_POLL") == "poll",
        "acks": config.acks,
        "compression": codec,
        "compression_level": levels.get(codec, 0),
        "linger_ms": config.linger_ms,
        "linger_bound_ms": linger_bound_ms(config.linger_ms),
        "batch_bytes": config.batch_size,
        "sticky_bytes": min(config.batch_size, STICKY_BATCH_SIZE),  # P-C.5.1
        "adaptive_partitioning": config.partitioner_adaptive_partitioning_enable,
        "availability_timeout_ms": config.partitioner_availability_timeout_ms,
        "max_request_bytes": config.max_request_size,
        "max_in_flight": config.max_in_flight_requests_per_connection,
        "request_timeout_ms": config.request_timeout_ms,
        "delivery_timeout_ms": config.delivery_timeout_ms,
        "retries": config.retries,
        "retry_backoff_ms": config.retry_backoff_ms,
        "retry_backoff_max_ms": config.retry_backoff_max_ms,
        "max_idle_ms": config.connections_max_idle_ms,
        "send_buffer_bytes": config.send_buffer_bytes,
        "receive_buffer_bytes": config.receive_buffer_bytes,
        "idempotent": config.enable_idempotence,
        "guarantee_order": config.max_in_flight_requests_per_connection == 1,  # P-B.6
        "seed": random_seed(),
    }
