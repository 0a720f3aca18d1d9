"""`send`, natively. What is raised and what comes through the future: contract P-A.3.12."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.bytes.argument_view cimport (
    LARGEST_PARTITION, LATEST_MS, View, view_release, view_take, whole_number,
)
from fastprod._core.bytes.buffer_pool cimport (
    BufferPool, Waiter, pool_callback_bytes, pool_cancel, pool_give, pool_queue, pool_wait,
)
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_EXHAUSTED, FP_OK, FP_TOO_LARGE, FpStatus,
)
from fastprod._core.bytes.lent_value cimport LEAST_LENT_BYTES, values_release
from fastprod._core.bytes.murmur2 cimport murmur2
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_load_i32, fp_ms_to_ns, fp_now_ns, fp_wall_ms
from fastprod._core.delivery.async_record_future cimport await_record
from fastprod._core.delivery.fork_watch cimport is_fork_unknown
from fastprod._core.delivery.future cimport (
    CALL_BOTH, RecordFuture, failed_future, is_delivering, need_drain, new_future, set_starter,
)
from fastprod._core.delivery.loop_reader cimport LoopReader, running_reader
from fastprod._core.delivery.result cimport fork_epoch
from fastprod._core.delivery.wait_habit cimport note_send
from fastprod._core.engine.accumulator cimport (
    ANY_PARTITION, Appended, Topic, accumulator_append, accumulator_kick,
)
from fastprod._core.engine.engine cimport Engine, TopicRef
from fastprod._core.producer.memory_turn cimport MemoryTurn, memory_turn
from fastprod._core.producer.record_chunk cimport LARGEST_FIELD
from fastprod._core.records.headers cimport (
    SMALL_HEADERS, encode_headers, encode_small_headers,
)
from fastprod._core.records.record_batch cimport Record, record_upper_bound

from fastprod.deadline import record_deadline_ns
from fastprod.errors import (
    ApiError, BufferExhaustedError, KafkaError, ProducerClosedError, RecordTooLargeError,
)

cdef enum:
    SLICE_NS = 50000000
    MS = 1000000
    SENT_WITH_GIL_BYTES = 4096      # of a record that leaves before `send` returns


cdef object _chosen(int32_t partition):
    """None: still open. No object is made for a record that nothing is wrong with."""
    return partition if partition >= 0 else None


cdef class ProducerBase:
    """The compiled part of `KafkaProducer` that every record passes; not for use by itself.

    A subclass calls `_attach` with an engine and has these methods, which the compiled code calls:
    `_not_open()` raises, or opens again in the child of a fork; `_await_topic(topic, partition,
    timeout_ms)` waits until the engine knows them; `_await_topics(wanted, timeout_ms)` does so for
    several topics and returns the errors; `_start_delivery()` comes before the first callback;
    `_count_error(topic)`; `_refused_record(error)`: a record failed before it was queued, and its
    future alone says so; `_send_record(...)` takes a send with plug-ins or a `ProducerRecord`;
    `_keep_deadline(future, due_ns, limit_us)` fails the record then, by CLOCK_MONOTONIC;
    `_go_on(topic)`, or None, raises if a bulk is to end.
    """

    def __cinit__(self, *args, **kwargs):
        self.topics = {}
        self.is_closed = True
        self.takes_records = False

    def _attach(self, Engine engine, *, is_simple, ignores_keys, max_record_bytes, buffer_bytes,
                max_block_ms, takes_records=True):
        """Start taking records into `engine`; also after a fork, with a new one.

        Args:
            engine: the native side.
            is_simple: no interceptor, serializer or partitioner is configured: `send` need not
                call `_send_record`.
            ignores_keys: a key does not choose the partition.
            max_record_bytes: upper bound of one record.
            buffer_bytes: the pool's size, for errors.
            max_block_ms: how long one send may wait.
            takes_records: at once; False: not before `_take_records`.
        """
        self.engine_ = engine
        self.topics = {}
        self.last_topic = None
        self.last_native = NULL
        self.is_simple = is_simple
        self.ignores_keys = ignores_keys
        self.max_record_bytes = max_record_bytes
        self.buffer_bytes = buffer_bytes
        self.max_block_ns = fp_ms_to_ns(max_block_ms)
        self.has_delivery = False
        set_starter(&engine.accumulator.incomplete, self._start_delivery)
        self.is_closed = False
        self.takes_records = takes_records

    def _detach(self):
        """Take no more records: the next send calls `_not_open`."""
        if self.engine_ is not None:
            set_starter(&self.engine_.accumulator.incomplete, None)
        self.is_closed = True
        self.takes_records = False

    def _take_records(self, bint takes):
        """Take records, or none until this is called again: the next send calls `_not_open`."""
        self.takes_records = takes and not self.is_closed

    @property
    def _engine(self):
        """The engine of `_attach`."""
        return self.engine_

    @property
    def closed(self):
        """Whether the producer takes no records: it is closed or has failed for good, or this is
        the child of a fork, where the next `send` opens it again.  Never blocks.  Threads: any."""
        return self.is_closed

    def _topic_known(self, TopicRef ref):
        """Metadata of the topic is there: sends need not look it up."""
        self.topics[ref.name] = ref

    def _knows(self, str topic, partition):
        """Whether a send to the topic, and partition, need not wait for metadata."""
        cdef TopicRef ref = self.topics.get(topic)
        return ref is not None and (partition is None or partition < ref.topic.partition_count)

    def _topic_forgotten(self, str name):
        """The topic left the metadata: the next send waits for it again."""
        self.topics.pop(name, None)
        if self.last_topic == name:
            self.last_topic = None

    def send(self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
             on_delivery=None, deadline=None):
        """Queue one record and return a `RecordFuture` for its delivery.

        The caller may use its buffers again once this returns: their bytes are copied, or, of a
        `bytes` value of 32 KiB or more that is not compressed, the object itself is kept until the
        record is done, and up to a second longer. The record is sent by the I/O thread, when its
        batch is due.

        Args:
            topic: str, 1 to 249 characters; or a `ProducerRecord`: then only `on_delivery` may
                be given beside it.
            value: bytes, another contiguous buffer, or what value_serializer takes; less than
                2 GiB. None, the default, is a tombstone on a compacted topic.
            key: as `value`. It chooses the partition by murmur2, unless `partition` or
                partitioner_ignore_keys is set. None, the default: the partitioner chooses.
            headers: (str, bytes or None) pairs, a dict of them, or `Headers`; the order is kept,
                and a name may occur more than once. Default: none.
            partition: int, 0 or more; goes before `key`. Default: by key, else the partitioner's.
            timestamp_ms: int, ms since 1970-01-01 UTC, 0 or more; default: now.
            on_delivery: called once as ``on_delivery(metadata, None)`` or
                ``on_delivery(metadata, error)``, on the delivery thread; what it raises is logged.
                If the record fails before it is in a batch, it is called before this returns.
            deadline: seconds from now, above 0, by which the record must be acknowledged, with the
                wait for metadata and memory; a number. What has not left by then is taken back, as
                by `cancel`; what has may be written all the same, and is sent again if it has to
                be, since others travel with it. Either fails with RecordDeadlineError, whose
                `was_sent` says which; within this call with MetadataTimeoutError or
                BufferExhaustedError. A transaction that it belongs to cannot be committed. Default:
                none but delivery_timeout_ms, which holds besides.

        Returns:
            A future: ``result(timeout)`` returns the `RecordMetadata`, or raises the delivery
            error: an unknown topic, no memory in time, a record that is too large, an error that
            the broker answered.

        Raises:
            ProducerClosedError: `close` was called, perhaps while this waited.
            SerializationError: a serializer does not take the key or the value.
            TypeError: the value, the key or a header is neither bytes-like nor None.
            ValueError: `partition`, `timestamp_ms` or `deadline` is out of range, or a key or value
                has 2 GiB or more.
            KafkaError: the producer has failed for good, and why.

        Blocks: up to max_block_ms or `deadline` in all, for the metadata of a new topic and for
        memory; Ctrl-C gets through. Records take memory until a broker has acknowledged them and
        their callbacks have run. Inside a callback only the former counts, because nobody else
        would run the others; when 2 x buffer_memory wait for callbacks there, the future has failed
        at once.
        Threads: any, at the same time; also inside `on_delivery`.
        Source: KafkaProducer.send; contract P-A.3.
        """
        if deadline is not None:
            return self._send_by(
                deadline, topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self.is_simple and PyUnicode_CheckExact(topic):
            return self._send(
                topic, value, key, headers, partition, timestamp_ms, on_delivery, MODE_BLOCK)
        return self._send_record(
            topic, value, key, headers, partition, timestamp_ms, on_delivery, True)

    cdef object _send_by(self, object deadline, object topic, object value, object key,
                         object headers, object partition, object timestamp_ms, object on_delivery):
        """`send` with a deadline: what it leaves of max_block_ms counts as spent already."""
        cdef int64_t began_ns = fp_now_ns()
        cdef int64_t bound_ns, spent_ns
        cdef RecordFuture future
        bound_ns = record_deadline_ns(deadline)
        spent_ns = max(<int64_t>0, self.max_block_ns - bound_ns)
        if self.is_simple and PyUnicode_CheckExact(topic):
            future = self._send(
                topic, value, key, headers, partition, timestamp_ms, on_delivery, MODE_BLOCK,
                spent_ns)
        else:
            future = self._send_record(
                topic, value, key, headers, partition, timestamp_ms, on_delivery, True,
                spent_ms=spent_ns // MS)
        if not future.done():
            self._keep_deadline(future, began_ns + bound_ns, bound_ns // 1000)
        return future

    def try_send(self, topic, value=None, key=None, headers=None, partition=None,
                 timestamp_ms=None, on_delivery=None):
        """Queue one record if that needs no waiting: `send` with max_block_ms = 0.

        Args:
            topic, value, key, headers, partition, timestamp_ms, on_delivery: as for `send`.

        Returns:
            A `RecordFuture`. Where `send` would wait, it has failed already: with
            MetadataTimeoutError for a topic that is not known yet (it is asked for now, and
            `warmup` waits for it), with BufferExhaustedError if buffer_memory is full.

        Raises:
            ProducerClosedError, SerializationError, TypeError, ValueError, KafkaError: as `send`.

        Never blocks.  Threads: any.  Source: KafkaProducer.send; contract P-A.3.18.
        """
        if self.is_simple and PyUnicode_CheckExact(topic):
            return self._send(
                topic, value, key, headers, partition, timestamp_ms, on_delivery, MODE_TRY)
        return self._send_record(
            topic, value, key, headers, partition, timestamp_ms, on_delivery, False)

    def _send_bytes(self, topic, value, key, headers, partition, timestamp_ms, on_delivery,
                    may_block, int64_t waited_ms=0):
        """`send` for a record that interceptors, serializers and the partitioner have seen.

        Args:
            may_block: False: as `try_send`.
            waited_ms: what the metadata has taken of max_block_ms already.

        The rest, returns, raises and blocks as `send`.
        """
        return self._send(
            topic, value, key, headers, partition, timestamp_ms, on_delivery,
            MODE_BLOCK if may_block else MODE_TRY, fp_ms_to_ns(waited_ms))

    def _begin_send(self, topic, value=None, key=None, headers=None, partition=None,
                    timestamp_ms=None):
        """Queue one record for an event loop, which waits for what is missing.

        Returns:
            An AsyncRecordFuture; or a MemoryTurn, for `_continue_send`; or None: the topic or the
            partition is not known yet, or the record is not for this way.

        Raises as `send`, and as `need_loop`, before anything is queued.
        """
        cdef LoopReader reader = running_reader()
        if not self.is_simple or not PyUnicode_CheckExact(topic):
            return None
        found = self._send(
            topic, value, key, headers, partition, timestamp_ms, None, MODE_AWAIT)
        if type(found) is not RecordFuture:
            return found
        return await_record(<RecordFuture>found, reader)

    def _try_send_awaited(self, topic, value, key, headers, partition, timestamp_ms):
        """`try_send` for an event loop.

        Returns:
            An AsyncRecordFuture.

        Raises as `try_send`, and as `need_loop`, before anything is queued.
        """
        cdef LoopReader reader = running_reader()
        if self.is_simple and PyUnicode_CheckExact(topic):
            found = self._send(
                topic, value, key, headers, partition, timestamp_ms, None, MODE_TRY)
        else:
            found = self._send_record(
                topic, value, key, headers, partition, timestamp_ms, None, False)
        return await_record(found, reader)

    def _continue_send(self, topic, value, key, headers, partition, timestamp_ms, on_delivery,
                       MemoryTurn turn=None):
        """Queue one record that interceptors, serializers and the partitioner have seen.

        Args:
            turn: is over; its memory is taken.

        The rest, returns and raises as `_begin_send`, but for a RecordFuture.
        """
        return self._send(
            topic, value, key, headers, partition, timestamp_ms, on_delivery, MODE_AWAIT, 0, turn)

    cdef object _send(self, object topic, object value, object key, object headers,
                      object partition, object timestamp_ms, object on_delivery, int mode,
                      int64_t waited_ns=0, MemoryTurn turn=None):
        """Look at the caller's objects; the record borrows from them until this returns."""
        cdef Record record
        cdef View value_view
        cdef View key_view
        cdef bytes encoded
        cdef uint8_t[SMALL_HEADERS] small
        cdef int32_t target = ANY_PARTITION
        if not self.takes_records or is_fork_unknown():
            self._not_open()    # raises, or makes an engine for the child of a fork
        if partition is not None:
            target = <int32_t>whole_number("partition", partition, LARGEST_PARTITION)
        if timestamp_ms is None:
            record.timestamp_ms = fp_wall_ms()
        else:
            record.timestamp_ms = whole_number("timestamp_ms", timestamp_ms, LATEST_MS)
        record.headers = NULL
        record.headers_size = 0
        if headers:
            record.headers = small
            record.headers_size = encode_small_headers(headers, small)
            if record.headers_size == 0:
                encoded = encode_headers(headers)
                record.headers = <const uint8_t*>PyBytes_AS_STRING(encoded)
                record.headers_size = <uint32_t>PyBytes_GET_SIZE(encoded)
        value_view.is_held = False
        key_view.is_held = False
        try:
            view_take(value, &value_view, b"value")
            view_take(key, &key_view, b"key")
            if value_view.len > LARGEST_FIELD or key_view.len > LARGEST_FIELD:
                raise ValueError("a key or value of 2 GiB or more does not fit a record")
            record.value = <const uint8_t*>value_view.buf
            record.value_size = <int32_t>value_view.len
            record.key = <const uint8_t*>key_view.buf
            record.key_size = <int32_t>key_view.len
            return self._place_and_append(
                topic, value, &record, target, timestamp_ms is None, on_delivery, mode, waited_ns,
                turn)
        finally:
            view_release(&key_view)
            view_release(&value_view)

    cdef object _place_and_append(self, object topic, object value, Record* record,
                                  int32_t target, bint has_own_time, object on_delivery, int mode,
                                  int64_t waited_ns, MemoryTurn turn):
        """Topic, partition by key, size check (P-A.3.3, P-A.3.5, P-A.3.7), then the append."""
        cdef Topic* native
        cdef int64_t size
        cdef int64_t before_ns = waited_ns
        cdef int32_t wanted = target
        if (topic is self.last_topic and self.last_native != NULL
                and target < self.last_native.partition_count):
            native = self.last_native
        elif mode == MODE_AWAIT and not self._knows(topic, _chosen(wanted)):
            return None
        else:
            try:
                native = self._topic(
                    topic, target, &waited_ns if mode == MODE_BLOCK else NULL)
            except ApiError as error:
                return self._failed(topic, _chosen(wanted), error, on_delivery)
            if has_own_time:
                record.timestamp_ms += (waited_ns - before_ns) // MS
        if target < 0 and record.key_size >= 0 and not self.ignores_keys:
            target = <int32_t>(
                (murmur2(record.key, record.key_size) & 0x7FFFFFFF)
                % <uint32_t>native.partition_count)
        size = record_upper_bound(record)
        if size > self.max_record_bytes or size > self.buffer_bytes:
            return self._failed(
                topic, _chosen(wanted), self._too_large(topic, size), on_delivery)
        return self._append(
            topic, native, target, value, record, on_delivery, mode,
            self.max_block_ns - waited_ns if mode == MODE_BLOCK else 0, turn)

    cdef Topic* _topic(self, object topic, int32_t partition, int64_t* waited_ns) except NULL:
        """The topic, with metadata and at least `partition` + 1 partitions; may wait (P-A.4) for
        what `waited_ns` leaves of max_block_ms, and adds to it."""
        cdef PyObject* found = PyDict_GetItem(self.topics, topic)
        cdef TopicRef ref
        cdef int64_t began_ns
        if found != NULL:
            ref = <TopicRef>found
            if partition < ref.topic.partition_count:
                self.last_topic = topic
                self.last_native = ref.topic
                return ref.topic
        if waited_ns == NULL:
            self._await_topic(topic, _chosen(partition), 0)
        else:
            began_ns = fp_now_ns()
            self._await_topic(
                topic, _chosen(partition),
                max(<int64_t>0, self.max_block_ns - waited_ns[0]) // MS)
            waited_ns[0] += fp_now_ns() - began_ns
        ref = self.engine_.topic_ref(topic)
        if ref.topic.partition_count == 0:
            raise KafkaError(f"the metadata of topic {topic!r} has no partitions")
        if PyDict_GetItem(self.topics, topic) != NULL:      # else it went again while we woke
            self.last_topic = topic
            self.last_native = ref.topic
        return ref.topic

    cdef object _append(self, object topic, Topic* native, int32_t partition, object value,
                        Record* record, object on_delivery, int mode, int64_t budget_ns,
                        MemoryTurn turn):
        """Append, waiting in line for memory if there is none (P-A.3.9)."""
        cdef Appended appended
        cdef Slab* extra = NULL
        cdef int64_t deadline_ns = 0
        cdef FpStatus status
        cdef RecordFuture future = new_future(topic, NULL, 0)
        cdef void* attached = NULL
        appended.known = NULL
        appended.future_result = &future.result_
        appended.future_index = &future.index
        appended.waits = note_send(&self.engine_.accumulator.incomplete)
        future.timestamp_ms = record.timestamp_ms
        future.key_size = record.key_size
        future.value_size = record.value_size
        if on_delivery is not None:
            attached = self._attach_callback(future, on_delivery)
        if turn is not None:
            extra = turn.take()
        appended.owner = NULL
        if record.value_size >= LEAST_LENT_BYTES and PyBytes_CheckExact(value):
            values_release()    # those of earlier sends
            Py_INCREF(value)
            appended.owner = <PyObject*>value
        try:
            self._refuse_parents()
            while True:
                if appended.waits > 0 and record_upper_bound(record) > SENT_WITH_GIL_BYTES:
                    with nogil:
                        status = accumulator_append(
                            &self.engine_.accumulator, native, partition, record, 1, extra,
                            attached, &appended)
                else:
                    status = accumulator_append(
                        &self.engine_.accumulator, native, partition, record, 1, extra, attached,
                        &appended)
                extra = NULL
                if status == FP_OK:
                    future.result_ = appended.result
                    future.index = appended.index
                    attached = NULL
                    return future
                if status != FP_EXHAUSTED:
                    return self._refused(status, topic, partition, record, on_delivery)
                if mode == MODE_AWAIT:
                    return memory_turn(self.engine_, appended.need_bytes)
                if deadline_ns == 0:
                    deadline_ns = fp_now_ns() + budget_ns
                if not self._wait_for_memory(
                        appended.need_bytes, deadline_ns, budget_ns, <void**>&extra):
                    return self._failed(
                        topic, _chosen(partition),
                        self._exhausted(budget_ns if fp_now_ns() >= deadline_ns else 0),
                        on_delivery)
        finally:
            if attached != NULL:
                Py_DECREF(future)
            if appended.owner != NULL:
                Py_DECREF(value)

    cdef void* _attach_callback(self, RecordFuture future, object on_delivery) except NULL:
        """A new reference, for the result that will run the callback."""
        if not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        if not self.has_delivery:
            need_drain(&self.engine_.accumulator.incomplete)
            self.has_delivery = True
        future.callbacks = on_delivery
        Py_INCREF(future)
        return <PyObject*>future

    cdef object _refused(self, FpStatus status, object topic, int32_t partition, Record* record,
                         object on_delivery):
        if status == FP_CLOSED:
            self._refuse_late()
        if status == FP_TOO_LARGE:
            return self._failed(
                topic, _chosen(partition),
                self._too_large(topic, record_upper_bound(record)), on_delivery)
        raise MemoryError("no memory for a batch")

    cdef int _refuse_late(self) except -1:
        """What was open when the call began is not any more."""
        if not self.is_closed:
            self._not_open()    # the transaction has ended meanwhile
        raise ProducerClosedError("Producer closed while send in progress")

    cdef int _refuse_parents(self) except -1:
        """Nobody would send in the child what is queued in an engine of the parent's."""
        if self.engine_.is_abandoned:
            raise ProducerClosedError(
                "a signal handler forked while a call queued records: they are not queued here, in "
                "the child; send them again")
        return 0

    cdef int _end_if_called_off(self) except -1:
        """Perhaps nobody wants what a bulk has not queued yet any more: see BulkThread."""
        if self._go_on is not None:
            self._go_on(None)
        return 0

    cdef object _exhausted(self, int64_t waited_ns):
        return BufferExhaustedError(
            waited_ms=waited_ns / MS, total_bytes=self.buffer_bytes,
            waiters=fp_load_i32(&self.engine_.accumulator.pool.waiting),
            callback_bytes=pool_callback_bytes(&self.engine_.accumulator.pool))

    cdef int _wait_for_memory(self, size_t need_bytes, int64_t deadline_ns, int64_t budget_ns,
                              void** chain) except -1:
        """Wait in line for `need_bytes`. 1: *chain has them; 0: not in time (P-D.3.4), or this is a
        callback, and what it has sent waits for itself."""
        cdef BufferPool* pool = &self.engine_.accumulator.pool
        cdef Waiter waiter
        cdef uint32_t epoch = fork_epoch()
        cdef FpStatus status
        cdef int64_t until_ns
        cdef bint is_delivery = is_delivering(&self.engine_.accumulator.incomplete)
        if budget_ns <= 0 and not is_delivery:
            accumulator_kick(&self.engine_.accumulator)
            return 0
        status = pool_queue(pool, &waiter, need_bytes, is_delivery, <Slab**>chain)
        accumulator_kick(&self.engine_.accumulator)
        try:
            while status == FP_BLOCKED:
                until_ns = min(deadline_ns, fp_now_ns() + SLICE_NS)
                with nogil:
                    status = pool_wait(pool, &waiter, until_ns, <Slab**>chain)
                if status == FP_BLOCKED:
                    if fp_now_ns() >= deadline_ns:
                        status = pool_cancel(pool, &waiter, True, <Slab**>chain)
                        break
                    PyErr_CheckSignals()
                    self._end_if_called_off()
                    if fork_epoch() != epoch:
                        raise ProducerClosedError(
                            "a signal handler forked while send() waited for memory: what waits "
                            "is the parent's; in the child send the record again")
        except BaseException:
            if fork_epoch() != epoch:
                raise       # the line that we stood in is the parent's, and so are its locks
            if pool_cancel(pool, &waiter, False, <Slab**>chain) == FP_OK:
                self._give_back(<size_t>chain[0])
            raise
        if status == FP_CLOSED:
            raise ProducerClosedError("Producer closed while allocating memory")
        if status == FP_TOO_LARGE:
            raise MemoryError(f"{need_bytes:,} bytes are more than buffer_memory")
        return status == FP_OK

    def _out_of_memory(self, waited_ms):
        """Return the error of a record that has waited so long for memory."""
        return self._exhausted(fp_ms_to_ns(waited_ms))

    def _give_back(self, size_t chain):
        pool_give(&self.engine_.accumulator.pool, <Slab*>chain)

    def _too_large(self, topic, size):
        """Return the error of P-A.3.7 for a record of up to `size` bytes."""
        name, limit = "max_request_size", self.max_record_bytes
        if size <= self.max_record_bytes:
            name, limit = "buffer_memory", self.buffer_bytes
        return RecordTooLargeError.for_record(
            topic=topic, size_bytes=size, limit_bytes=limit, limit_name=name)

    def _failed(self, topic, partition, error, on_delivery):
        """P-A.3.12, first row: the future carries the error, the callback runs here and now."""
        cdef RecordFuture future = failed_future(topic, partition, error)
        self._count_error(topic)
        self._refused_record(error)
        if on_delivery is not None:
            future._add((CALL_BOTH, on_delivery, (), {}))
        return future
