"""What Python sees of `produce_frame`; the codec itself is native (see produce_frame.pxd)."""

from collections.abc import Sequence
from typing import Any

from fastprod._core.record_batch import BatchForTest

def encode_request_for_test(
    version: int,
    correlation_id: int,
    client_id: bytes,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[bytes, bytes]],
    parts: Sequence[tuple[int, int, BatchForTest]],
    times: int = 1,
) -> bytes:
    """Return the whole frame of one Produce request, size prefix included.

    Args:
        version: 3..13.
        correlation_id: int32.
        client_id: UTF-8.
        acks: -1, 0 or 1.
        timeout_ms: int32.
        topics: (name, 16-byte id).
        parts: (number of the topic, partition, sealed batch with the state of its last `header`),
            in any order; a partition once.
        times: encode so often into one request, as a reused one is.

    Raises:
        AssertionError: it was larger than the room made for it, or counted wrongly.
    """

def decode_response_for_test(
    payload: bytes, version: int
) -> tuple[list[dict[str, Any]], int, dict[int, tuple[str, int]]]:
    """Parse what is behind the correlation id of a Produce response.

    Returns:
        (partitions in the order of the response, throttle time in ms, (host, port) of the nodes
        that are somebody's leader hint). A partition has topic (name or 16-byte id), index,
        error_code, base_offset, log_append_ms, log_start_offset, record_errors (texts by index),
        message, leader (id, epoch).

    Raises:
        ValueError: it does not parse.
    """
