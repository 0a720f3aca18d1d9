"""What Python sees of `figures`: what metrics() is made of."""

from typing import NamedTuple

from fastprod._core.engine.histogram import LatencyHistogram

class NodeFigures(NamedTuple):
    """What one broker has seen since the engine was made.

    Attributes:
        node_id: its id.
        requests: of every kind, sent.
        request_bytes: theirs.
        responses: of every kind.
        sent_bytes: written to its sockets.
        received_bytes: read from them.
        in_flight: requests without an answer, now.
        largest_request: in bytes; since it last started anew.
        latency: from a Produce request to its answer.
    """

    node_id: int
    requests: int
    request_bytes: int
    responses: int
    sent_bytes: int
    received_bytes: int
    in_flight: int
    largest_request: int
    latency: LatencyHistogram

class TopicFigures(NamedTuple):
    """What one topic has seen since the engine was made.

    Attributes:
        name: the topic.
        records: sent, retries again.
        bytes: of their batches, as sent.
        batches: sent, retries again.
        ratio_millionths: sum over the batches of compressed by plain size, in millionths.
        retries: records sent again.
        errors: records that failed.
        ack_time: of records, from the creation of their batch to its acknowledgement.
    """

    name: str
    records: int
    bytes: int
    batches: int
    ratio_millionths: int
    retries: int
    errors: int
    ack_time: LatencyHistogram
