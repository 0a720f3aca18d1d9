"""Doors to requests: in flight, their sequences, their bytes, and batches that are split."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport cython

from fastprod._core.bytes.buffer_pool cimport pool_destroy, pool_free_bytes, pool_init
from fastprod._core.bytes.fp_status cimport FP_CLOSED, FP_OK, FpStatus, check
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.delivery.result cimport Result, result_abandon, result_resolve
from fastprod._core.engine.accumulator cimport Accumulator, Partition, Topic
from fastprod._core.engine.batch_split cimport batch_split
from fastprod._core.engine.control_queue cimport event_queue_destroy, event_queue_init
from fastprod._core.engine.in_flight cimport (
    REQUEST_CONTROL, REQUEST_PRODUCE, InFlightRequests, Request, forbid_growth, in_flight_add,
    in_flight_can_send, in_flight_pop, in_flight_pop_newest, next_correlation_id,
    request_add_batch, request_free, request_new, request_reserve_batch,
)
from fastprod._core.engine.produce_codec cimport (
    ProduceHeader, ProducePartition, ProduceReader, produce_encode, produce_endpoint,
    produce_next, produce_open, produce_record_error,
)
from fastprod._core.engine.sender_state cimport IoThread
from fastprod._core.engine.sequences cimport (
    flight_append, flight_remove, next_sequence as sequence_after,
    sequence_acked,
    sequence_allows, sequence_assign, sequence_can_retry, sequence_failed, sequence_settle,
    sequence_unresolved,
)
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, ProducerBatch, batch_free, batch_new, batch_seal, batch_write_header,
)
from fastprod._core.testing.records_doors cimport BatchForTest


def forbid_growth_for_test(int after):
    forbid_growth(after)


def next_correlation_id_for_test(int correlation_id):
    return next_correlation_id(correlation_id)


cdef class InFlightForTest:
    """See the .pyi."""

    cdef InFlightRequests flights

    def __dealloc__(self):
        cdef Request* request = in_flight_pop(&self.flights)
        while request != NULL:
            request_free(request)
            request = in_flight_pop(&self.flights)

    def add(self, int name, bint is_produce=True, bint is_written=False):
        cdef Request* request = request_new()
        if request == NULL:
            raise MemoryError
        request.token = name
        request.kind = REQUEST_PRODUCE if is_produce else REQUEST_CONTROL
        request.is_written = is_written
        in_flight_add(&self.flights, request)

    cdef object _named(self, Request* request):
        if request == NULL:
            return None
        name = request.token
        request_free(request)
        return name

    def pop(self):
        return self._named(in_flight_pop(&self.flights))

    def pop_newest(self):
        return self._named(in_flight_pop_newest(&self.flights))

    def write_newest(self):
        self.flights.newest.is_written = True

    def can_send(self, int most):
        return bool(in_flight_can_send(&self.flights, most))

    @property
    def counts(self):
        return self.flights.count, self.flights.produce_count


def next_sequence_for_test(int sequence, int count):
    return sequence_after(sequence, count)


@cython.no_gc_clear
cdef class ProducerStateForTest:
    """See the .pyi."""

    cdef IoThread io
    cdef Partition partition
    cdef dict batches

    def __cinit__(self, producer_id=4000, producer_epoch=0, next_sequence=0):
        memset(&self.io, 0, sizeof(IoThread))
        memset(&self.partition, 0, sizeof(Partition))
        self.batches = {}
        event_queue_init(&self.io.events)
        self.io.idempotent = True
        self.io.producer_id = producer_id
        self.io.producer_epoch = producer_epoch
        self.partition.producer_id = producer_id
        self.partition.producer_epoch = producer_epoch
        self.partition.next_sequence = next_sequence
        self.partition.last_acked_sequence = next_sequence - 1
        self.partition.last_acked_offset = -1

    def __dealloc__(self):
        for at in self.batches.values():
            batch_free(<ProducerBatch*><size_t>at, NULL)
        event_queue_destroy(&self.io.events)

    cdef ProducerBatch* _at(self, int name) except NULL:
        return <ProducerBatch*><size_t>self.batches[name]

    def drain(self, int name, int count=1):
        cdef ProducerBatch* batch
        cdef Result* result
        if name not in self.batches:
            result = <Result*>calloc(1, sizeof(Result))
            result.refs = 1
            batch = batch_new(&self.partition, result, 0, 0)
            batch.count = count
            self.batches[name] = <size_t>batch
        batch = self._at(name)
        if not sequence_allows(&self.io, &self.partition, batch):
            return False
        if not batch.has_sequence:
            sequence_assign(&self.io, &self.partition, batch)
            flight_append(&self.partition, batch)
        self.partition.outstanding += 1
        return True

    def answered(self, int name):
        self.partition.outstanding -= 1
        sequence_settle(&self.io, &self.partition)

    def acked(self, int name, int64_t base_offset=-1):
        sequence_acked(&self.partition, self._at(name), base_offset)
        flight_remove(&self.partition, self._at(name))
        self.answered(name)

    def can_retry(self, int name, int code, int64_t log_start_offset=-1):
        return bool(sequence_can_retry(
            &self.io, &self.partition, self._at(name), code, log_start_offset))

    def failed(self, int name):
        sequence_failed(&self.io, &self.partition, self._at(name))
        flight_remove(&self.partition, self._at(name))
        self.answered(name)

    def expired(self, int name):
        sequence_unresolved(&self.partition)
        flight_remove(&self.partition, self._at(name))

    def settle(self):
        sequence_settle(&self.io, &self.partition)

    def set_producer_id(self, int64_t producer_id, int producer_epoch):
        self.io.producer_id = producer_id
        self.io.producer_epoch = producer_epoch
        self.io.asked_producer_id = False

    def sequence(self, int name):
        cdef ProducerBatch* batch = self._at(name)
        return batch.producer_id, batch.producer_epoch, batch.base_sequence

    def flights(self):
        cdef ProducerBatch* batch = self.partition.flight_first
        names = {at: name for name, at in self.batches.items()}
        found = []
        while batch != NULL:
            found.append(names[<size_t>batch])
            batch = batch.flight_next
        return found

    @property
    def state(self):
        return {
            "producer_id": self.io.producer_id,
            "producer_epoch": self.io.producer_epoch,
            "next_sequence": self.partition.next_sequence,
            "last_acked_sequence": self.partition.last_acked_sequence,
            "last_acked_offset": self.partition.last_acked_offset,
            "has_unresolved": bool(self.partition.has_unresolved),
            "needs_bump": bool(self.partition.needs_bump),
            "epoch_bumps": self.io.counters.epoch_bumps,
            "ids_asked_for": self.io.events.count,
        }


cdef bytes _gathered(Request* request):
    """The frame as the socket would get it."""
    cdef int32_t i
    if request.scratch_used > request.scratch_capacity or request.iov_count > request.iov_capacity:
        raise AssertionError("the request was larger than its bound")
    frame = b"".join([
        (<const char*>request.iov[i].iov_base)[:request.iov[i].iov_len]
        for i in range(request.iov_count)
    ])
    if len(frame) != request.wire_bytes:
        raise AssertionError(f"{len(frame)} bytes, counted as {request.wire_bytes}")
    return frame


def encode_request_for_test(
    int version, int correlation_id, bytes client_id, int acks, int timeout_ms, topics, parts,
    int times=1,
):
    cdef Topic* structs = <Topic*>calloc(len(topics) + 1, sizeof(Topic))
    cdef Partition* partitions = <Partition*>calloc(len(parts) + 1, sizeof(Partition))
    cdef Request* request = request_new()
    cdef ProduceHeader header
    cdef BatchForTest door
    cdef int i, number, at
    memset(&header, 0, sizeof(header))
    header.client_id = client_id
    header.client_id_size = <int16_t>len(client_id)
    header.acks = <int16_t>acks
    header.timeout_ms = timeout_ms
    try:
        for i, (name, topic_id) in enumerate(topics):
            structs[i].name = name
            structs[i].name_size = <int32_t>len(name)
            memcpy(structs[i].id, <const char*>topic_id, 16)
        request.version = <int16_t>version
        request.correlation_id = correlation_id
        for _ in range(times):
            request.batch_count = 0
            for i, (number, at, door) in enumerate(parts):
                partitions[i].topic = &structs[number]
                partitions[i].index = at
                door.batch.partition = &partitions[i]
                if not request_reserve_batch(request):
                    raise MemoryError
                request_add_batch(request, door.batch)
            check(produce_encode(request, &header))
        return _gathered(request)
    finally:
        request_free(request)
        free(partitions)
        free(structs)


cdef object _text(const uint8_t* text, int32_t size):
    return text[:size].decode() if size >= 0 else None


def decode_response_for_test(bytes payload, int version):
    cdef ProduceReader r
    cdef ProducePartition part
    cdef const uint8_t* start = payload
    cdef const uint8_t* text
    cdef const uint8_t* at
    cdef int32_t _i, node, size = 0, index = 0, port = 0
    cdef FpStatus status = produce_open(&r, start, len(payload), version)
    found = []
    while status == FP_OK:
        status = produce_next(&r, &part)
        if status != FP_OK:
            break
        errors = {}
        at = part.record_errors
        for _i in range(part.record_error_count):
            at = produce_record_error(at, r.end, version, &index, &text, &size)
            errors[index] = _text(text, size)
        found.append({
            "topic": part.topic[:part.topic_size],
            "index": part.index,
            "error_code": part.error_code,
            "base_offset": part.base_offset,
            "log_append_ms": part.log_append_ms,
            "log_start_offset": part.log_start_offset,
            "record_errors": errors,
            "message": _text(part.message, part.message_size),
            "leader": (part.leader_id, part.leader_epoch),
        })
    if status != FP_CLOSED:
        raise ValueError("the Produce response does not parse")
    endpoints = {}
    for node in {entry["leader"][0] for entry in found}:
        if produce_endpoint(&r, node, &text, &size, &port):
            endpoints[node] = (_text(text, size), port)
    return found, r.throttle_ms, endpoints


@cython.no_gc_clear
cdef class SplitsForTest:
    """See the .pyi."""
    # OWNER of the children. The parent belongs to its BatchForTest, which this keeps alive.

    cdef IoThread io
    cdef Accumulator accumulator
    cdef Partition partition
    cdef BatchForTest parent

    def __cinit__(
        self, BatchForTest parent, uint32_t batch_bytes, int64_t created_ns=0, int sequence=-1
    ):
        cdef ProducerBatch* batch = parent.batch
        memset(&self.io, 0, sizeof(IoThread))
        memset(&self.accumulator, 0, sizeof(Accumulator))
        memset(&self.partition, 0, sizeof(Partition))
        self.io.accumulator = &self.accumulator
        self.accumulator.batch_bytes = batch_bytes
        check(pool_init(&self.accumulator.pool, 4096))
        self.parent = parent
        batch.partition = &self.partition
        batch.created_ns = created_ns
        if sequence >= 0:
            batch.has_sequence = True
            batch.producer_id = 4000
            batch.producer_epoch = 7
            batch.base_sequence = sequence
        flight_append(&self.partition, batch)

    def __dealloc__(self):
        cdef ProducerBatch* batch = self.partition.flight_first
        cdef ProducerBatch* following
        while batch != NULL:
            following = batch.flight_next
            if batch.was_split:
                result_abandon(batch.result)
                batch_free(batch, &self.accumulator.pool)
            batch = following
        pool_destroy(&self.accumulator.pool)

    cdef ProducerBatch* _at(self, int place) except NULL:
        cdef ProducerBatch* batch = self.partition.flight_first
        while batch != NULL and place > 0:
            batch = batch.flight_next
            place -= 1
        if batch == NULL:
            raise IndexError("no such batch in flight")
        return batch

    def split(self, int place=0):
        cdef ProducerBatch* batch = self._at(place)
        cdef ProducerBatch* child = NULL
        cdef FpStatus status
        cdef int children = 0
        with nogil:
            status = batch_split(&self.io, batch, &child)
        check(status)
        if batch.was_split:
            batch_free(batch, &self.accumulator.pool)
        while child != NULL:
            children += 1
            check(batch_seal(child, &self.parent.sealer, &self.accumulator.pool))
            child = child.next
        return children

    def flights(self):
        cdef ProducerBatch* batch = self.partition.flight_first
        cdef uint8_t header[BATCH_HEADER_BYTES]
        cdef Slab* slab
        found = []
        while batch != NULL:
            batch_write_header(batch, header, False)
            parts = [(<char*>header)[:BATCH_HEADER_BYTES]]
            slab = batch.first
            while slab != NULL:
                parts.append((<char*>slab.base)[:slab.used])
                slab = slab.next
            found.append({
                "data": b"".join(parts),
                "created_ns": batch.created_ns,
                "last_attempt_ns": batch.last_attempt_ns,
                "attempts": batch.attempts,
                "was_split": bool(batch.was_split),
                "is_closed": bool(batch.is_closed),
                "plain_bytes": BATCH_HEADER_BYTES + <int64_t>batch.record_bytes,
                "result_sequence": batch.result.base_sequence,
            })
            batch = batch.flight_next
        return found

    def place_of(self, uint32_t index):
        cdef Result* result = result_resolve(self.parent.batch.result, &index)
        cdef ProducerBatch* batch = self.partition.flight_first
        cdef int place = 0
        while batch != NULL and batch.result != result:
            batch = batch.flight_next
            place += 1
        return place, index

    @property
    def counters(self):
        return {
            "heap_bytes": self.accumulator.pool.heap_bytes,
            "pool_free_bytes": pool_free_bytes(&self.accumulator.pool),
            "incomplete": self.parent.incomplete.batch_count,
        }
