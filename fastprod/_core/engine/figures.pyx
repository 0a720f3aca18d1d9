"""Copies what an engine has counted, for metrics()."""
from collections import namedtuple

from fastprod._core.bytes.buffer_pool cimport pool_callback_bytes, pool_free_bytes
from fastprod._core.bytes.sync cimport fp_load_i32, fp_load_i64
from fastprod._core.engine.accumulator cimport Accumulator, Topic
from fastprod._core.engine.histogram cimport copy_histogram, take_maximum
from fastprod._core.engine.sender_state cimport IoThread, Node

NodeFigures = namedtuple(
    "NodeFigures",
    "node_id requests request_bytes responses sent_bytes received_bytes in_flight largest_request "
    "latency")
TopicFigures = namedtuple(
    "TopicFigures", "name records bytes batches ratio_millionths retries errors ack_time")


cdef dict counters_of(IoThread* io, bint is_abandoned):
    cdef Accumulator* a = io.accumulator
    callback_bytes = available_bytes = 0
    if not is_abandoned:
        callback_bytes = pool_callback_bytes(&a.pool)
        available_bytes = max(0, pool_free_bytes(&a.pool) - callback_bytes)
    return dict(
        io.counters, buffer_total_bytes=a.pool.total_bytes,
        buffer_available_bytes=available_bytes, buffer_callback_bytes=callback_bytes,
        waiting_threads=fp_load_i32(&a.pool.waiting),
        buffer_wait_ns=fp_load_i64(&a.pool.wait_ns_total),
        buffer_exhausted=a.pool.exhausted_total,
        records_cancelled=fp_load_i64(&a.cancelled_total),
        heap_bytes=a.pool.heap_bytes,
        io_wait_ns=fp_load_i64(&io.selector.io_wait_ns),
        polls=fp_load_i64(&io.selector.polls),
        producer_id=io.producer_id, producer_epoch=io.producer_epoch,
        connections=io.selector.channel_count)


cdef object node_figures(Node* node, bint reset):
    return NodeFigures(
        node.node_id, node.counters.requests, node.counters.request_bytes, node.counters.responses,
        node.counters.sent_bytes, node.counters.received_bytes, node.flights.count,
        take_maximum(&node.counters.largest_request, reset),
        copy_histogram(&node.counters.latency, reset))


cdef object topic_figures(str name, Topic* topic, bint reset):
    return TopicFigures(
        name, topic.record_total, topic.byte_total, topic.batch_total,
        topic.ratio_millionths, topic.retry_total, topic.error_total,
        copy_histogram(&topic.ack_time, reset))
