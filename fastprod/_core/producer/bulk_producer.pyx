"""`send_many` and `append_columns`. What is raised and what comes through the future: P-A.3.12."""
from collections.abc import Mapping
from itertools import islice

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.bytes.buffer_pool cimport pool_cancel
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_EXHAUSTED, FP_NOMEM, FP_OK, FP_TIMEDOUT, FP_TOO_LARGE, FpStatus,
    check,
)
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_now_ns, fp_wall_ms
from fastprod._core.delivery.fork_watch cimport is_fork_unknown
from fastprod._core.delivery.future cimport RecordFuture, is_delivering
from fastprod._core.delivery.result cimport fork_epoch
from fastprod._core.engine.accumulator cimport ANY_PARTITION, Topic
from fastprod._core.producer.bulk_future cimport BulkFuture, MemoryLine
from fastprod._core.producer.column_parser cimport read_columns
from fastprod._core.producer.producer_base cimport ProducerBase
from fastprod._core.producer.record_chunk cimport RecordChunk
from fastprod._core.producer.row_reader cimport NO_PARTITION, NO_TOPIC, ColumnRows
from fastprod._core.records.record_batch cimport record_upper_bound

from fastprod._core.columns.detect import is_columnar, is_plain, iter_rows
from fastprod.errors import (
    ApiError, BufferExhaustedError, KafkaError, MetadataTimeoutError, ProducerClosedError,
)
from fastprod.security.secret import plain_text

cdef enum:
    FIRST_CHUNK_RECORDS = 2048      # rows read before any is sent
    MOST_CHUNK_RECORDS = 65536
    MOST_PLAIN_RECORDS = 524288
    COLUMN_CHUNK_RECORDS = 1024     # they stay in the nearest cache
    MS = 1000000


cdef object _row_error(object error):
    """What the future tells of a row that `send` would not have taken: a KafkaError."""
    if isinstance(error, KafkaError):
        return error.with_traceback(None)
    found = KafkaError(f"the row is no record: {type(error).__name__}: {error}")
    found.__cause__ = error.with_traceback(None)
    return found


cdef object _ended_error(object error):
    """What the future tells of a row that was still to be queued when the call ended."""
    found = KafkaError(
        f"the row was not sent: the call that was queuing it ended with {type(error).__name__}")
    found.__cause__ = error
    return found


cdef class BulkProducer(ProducerBase):
    """The part of `KafkaProducer` that takes many records at once; not for use by itself."""

    def send_many(self, topic, values, keys=None, headers=None, partitions=None,
                  timestamps_ms=None):
        """Queue many records of one topic and return one `BulkFuture` for all of them.

        A column is a sequence with one cell for each record, an Arrow array or a numpy array.
        Arrow and numpy columns are read without making an object for each row, as by
        `append_columns`, and may be mixed with sequences. The records of each partition are
        appended in the order of the rows, without the GIL.

        Args:
            topic: str, 1 to 249 characters.
            values: one value for each record, as `send` takes them.
            keys: one for each record, as `send` takes them; default: no keys.
            headers: one for each record, as `send` takes them; or a mapping from names to columns
                or constants, for all records; default: none.
            partitions: one int for each record, 0 or more, or None; default: by key, else the
                partitioner's.
            timestamps_ms: one int for each record, or one for all: ms since 1970-01-01 UTC, 0 or
                more; default: the time of this call.

        Returns:
            A future: ``result(timeout)`` returns the `BulkMetadata`. It also has the errors of
            records that never left: no metadata or no memory in time (then of all the rest), too
            large, a partition that did not appear, or what `send` or a plug-in would have raised
            for the row (then of that row only). ``failed_rows()`` lists them.

        Raises:
            ProducerClosedError: `close` was called, perhaps while this waited.
            TypeError: `topic` is no str, or a column is text, bytes or one thing.
            ValueError: the columns differ in length, perhaps because another thread changed one.
            KafkaError: the producer has failed for good, and why.

        Rows before the error may have been queued: they are sent, and the attribute `sent_records`
        of the error is their future.

        Blocks: up to max_block_ms for the topic, and up to max_block_ms each time memory is short;
        Ctrl-C gets through.  Threads: any.  Source: KafkaProducer.send for many records; P-A.3.
        """
        cdef BulkFuture bulk = BulkFuture()
        cdef int64_t now_ms = fp_wall_ms()
        if not isinstance(topic, str):
            raise TypeError(f"send_many() takes a topic name, not {type(topic).__name__}")
        topic = plain_text(topic)
        plain = is_plain(values, keys, headers, partitions, timestamps_ms)
        if not plain and is_columnar(
                (values, keys, partitions, timestamps_ms), headers, not self.is_simple):
            is_flat = isinstance(headers, Mapping)
            return BulkProducer.append_columns(     # a subclass may change what it is given
                self, topic=topic, values=values, keys=keys, headers=None if is_flat else headers,
                header_columns=headers if is_flat else None, partitions=partitions,
                timestamps_ms=timestamps_ms)
        rows = iter_rows(values, keys, headers, partitions, timestamps_ms, now_ms)
        if not self.takes_records or is_fork_unknown():
            self._not_open()
        bulk.add_topic(topic, NULL)
        try:
            if self.is_simple and plain:
                self._send_plain(
                    bulk, topic, values, keys, now_ms if timestamps_ms is None else timestamps_ms)
            elif self.is_simple:
                self._send_rows(bulk, topic, rows)
            else:
                self._send_records(bulk, topic, rows)
        except BaseException as error:
            # What was sent before is on its way: the caller must be able to ask for it.
            error.sent_records = bulk
            self._tell_refusals(bulk)
            raise
        self._tell_refusals(bulk)
        return bulk

    def append_columns(self, columns=None, *, topic=None, values=None, keys=None, headers=None,
                       header_columns=None, partitions=None, timestamps_ms=None):
        """Queue the rows of Arrow or numpy columns and return one `BulkFuture` for all of them.

        No object is made for a row, and the GIL is released throughout. A column is any object
        with the Arrow PyCapsule interface (an array, a chunked array, a column of polars), a numpy
        array or a Python sequence; the kinds may be mixed. Arrays are read where they are and
        released before this returns; a stream is read to its end first.

        Args:
            columns: an Arrow record batch, table, reader or data frame, a structured numpy array,
                or a mapping. Its columns `value`, `key`, `topic`, `partition`, `headers` and
                `timestamp` are used, others are ignored. An argument below goes before the column
                of its name.
            topic: one str for all rows, or a column of names (bytes as for `values`, no nulls).
                Each distinct name is looked up once.
            values: Arrow binary or string, their large and view forms, fixed-size binary, or a
                dictionary of one of these; numpy S (zero bytes at the end are padding), V, or two
                dimensions (one row of bytes for each record). A null is a tombstone.
            keys: as `values`; for a null the partitioner chooses the partition.
            headers: an Arrow list, large list or map of (key, value), or a sequence of what `send`
                takes; null and empty mean none.
            header_columns: headers that every row has, behind those of `headers`: pairs or a
                mapping of a name and a column of values, or of a name and the same bytes for all
                rows. A null is a header without a value.
            partitions: integers, 0 or more; a null: by key, else the partitioner's.
            timestamps_ms: an Arrow timestamp or numpy datetime64 of any unit (rounded down to ms),
                integers (ms since 1970-01-01 UTC, 0 or more), or one int for all rows; null or
                None: the time of this call.

        Returns:
            A future: ``result(timeout)`` returns the `BulkMetadata`. ``failed_rows()`` lists row,
            topic, sizes and error of each record that was not delivered: too large, an illegal
            topic name, a topic or partition that did not appear, no memory in time (then all that
            follow), or an error that the broker answered.

        Raises:
            TypeError: a column has another type; or the producer has serializers, interceptors or
                a partitioner of the user's, which take Python objects.
            ValueError: the columns differ in length; a partition or timestamp is negative; a topic
                is null; a header has no name; an array is damaged. Nothing was queued.
            OSError: an Arrow stream failed.
            ProducerClosedError: `close` was called, perhaps while this waited.
            KafkaError: the producer has failed for good, and why.

        Blocks: for new topics, which are asked for together, up to max_block_ms after the last one
        that appeared; and up to max_block_ms each time memory is short. Ctrl-C gets through; the
        error's `sent_records` is the future of what was queued before, and rows among these that
        were not have failed.
        Threads: any; nobody may write to the arrays meanwhile.
        Source: the Arrow C data, C stream and PyCapsule interfaces; contract P-A.3.
        """
        cdef BulkFuture bulk = BulkFuture()
        cdef ColumnRows rows
        if not self.takes_records or is_fork_unknown():
            self._not_open()
        if not self.is_simple:
            raise TypeError(
                "columns are read natively, past serializers, interceptors and a partitioner of "
                "your own: use a producer without them, or send_many() with Python sequences "
                "(such as to_pylist() of an Arrow array)")
        rows = read_columns(
            columns, topic, values, keys, headers, header_columns, partitions, timestamps_ms,
            fp_wall_ms())
        try:
            self._send_columns(bulk, rows)
        except BaseException as error:
            error.sent_records = bulk
            self._tell_refusals(bulk)
            raise
        self._tell_refusals(bulk)
        return bulk

    cdef int _tell_refusals(self, BulkFuture bulk) except -1:
        """A transaction with records missing is not to be committed (P-A.3.12)."""
        if bulk.refusals:
            self._refused_record(bulk.refusals[0][0])
        return 0

    cdef int _send_records(self, BulkFuture bulk, object topic, object rows) except -1:
        """One by one, for plug-ins; what one does not take fails alone. max_block_ms is for the
        whole bulk: once it was not enough for a topic or partition, the others are not waited for,
        and once it was not enough for memory, the rest fails."""
        cdef RecordFuture future
        awaits_topic = True
        for value, key, header, partition, timestamp_ms in rows:
            try:
                future = self._send_record(
                    topic, value, key, header, partition, timestamp_ms, None, True, awaits_topic)
            except MemoryError:
                raise
            except Exception as error:
                if not self.takes_records:
                    raise
                bulk.refuse(1, _row_error(error))
                continue
            bulk.add_future(future)
            if future.result_ == NULL:      # it failed in `send`
                error = future.outcome()
                if isinstance(error, BufferExhaustedError):
                    return self._refuse_rest(bulk, topic, rows, error)
                awaits_topic = awaits_topic and not isinstance(error, MetadataTimeoutError)
        return 0

    cdef int _send_columns(self, BulkFuture bulk, ColumnRows rows) except -1:
        cdef RecordChunk chunk = RecordChunk.__new__(RecordChunk, COLUMN_CHUNK_RECORDS)
        cdef MemoryLine line
        cdef uint32_t epoch = fork_epoch()
        cdef int64_t largest = min(self.max_record_bytes, self.buffer_bytes)
        cdef FpStatus status = FP_TIMEDOUT
        for topic in rows.topics.topics if rows.topics is not None else (rows.topic,):
            bulk.add_topic(topic, NULL)
        if rows.count == 0:
            return 0
        bulk.reserve(rows.count)
        rows.ignores_keys = self.ignores_keys
        chunk.refusals = self._find_topics(bulk, rows)
        line.is_waiting = False
        line.is_delivery = is_delivering(&self.engine_.accumulator.incomplete)
        try:
            self._refuse_parents()
            while status != FP_OK:
                with nogil:
                    status = rows.append(bulk, &self.engine_.accumulator, chunk, largest, &line)
                self._after_append(bulk, chunk, status, &line, epoch)
        except ApiError as error:
            self._count_error(bulk.topics[0])
            while True:     # the rest does not wait for memory once more each
                bulk.refuse_records(chunk, chunk.count - chunk.appended, error)
                if rows.at == rows.count:
                    return 0
                if rows.fill(bulk, chunk, largest) != FP_OK:
                    raise MemoryError("no memory for the headers of a bulk") from error
        except BaseException as error:
            if chunk.row_of != NULL:    # some rows may be in of which earlier ones are not
                bulk.refuse_records(chunk, chunk.count - chunk.appended, _ended_error(error))
            raise
        finally:
            self._leave_line(&line, epoch)
        return 0

    cdef dict _find_topics(self, BulkFuture bulk, ColumnRows rows):
        """Metadata of each topic (P-A.4). Returns why records of some are refused."""
        cdef int64_t waited_ns = 0
        cdef uint32_t topic_slot
        cdef int32_t partition
        largest = rows.largest_partitions()
        errors = self._await_unknown(bulk.topics, largest)
        refusals = {}
        for topic_slot in range(bulk.topic_slot_count):
            topic = bulk.topics[topic_slot]
            partition = largest[topic_slot]
            cause = NO_TOPIC
            try:
                if topic in errors and not self._knows(topic, None):
                    raise errors[topic]
                bulk.topic_slots[topic_slot].topic = self._topic(topic, ANY_PARTITION, &waited_ns)
                cause = NO_PARTITION
                if partition >= bulk.topic_slots[topic_slot].topic.partition_count:
                    if topic in errors:
                        raise errors[topic]
                    self._topic(topic, partition, &waited_ns)
            except ApiError as error:
                refusals[cause, topic_slot] = error
                self._count_error(topic)
        return refusals

    cdef dict _await_unknown(self, list topics, list largest):
        """Wait for the topics that are not known, all together; what came instead, by topic."""
        cdef dict wanted = {}
        for topic, partition in zip(topics, largest):
            needed = partition if partition >= 0 else None
            if not self._knows(topic, needed):
                wanted[topic] = needed
        if not wanted:
            return {}
        try:
            return self._await_topics(wanted, self.max_block_ns // MS)
        except ApiError as error:
            return dict.fromkeys(wanted, error)

    cdef int _send_rows(self, BulkFuture bulk, object topic, object rows) except -1:
        """Any columns, read row by row."""
        cdef RecordChunk chunk
        cdef int32_t capacity = FIRST_CHUNK_RECORDS
        cdef Topic* native = self._bulk_topic(bulk, topic, rows)
        cdef int64_t waited_ns = 0
        missing = {}
        while native != NULL:
            chunk = RecordChunk.__new__(RecordChunk, capacity)
            for value, key, header, partition, timestamp_ms in islice(rows, capacity):
                try:
                    chunk.add(value, key, header, partition, timestamp_ms)
                except MemoryError:
                    raise
                except Exception as error:
                    chunk.refuse(_row_error(error))
                    self._count_error(topic)
            if chunk.count == 0:
                return 0
            self._check_partitions(topic, native, chunk, missing, &waited_ns)
            try:
                self._append_chunk(bulk, native, chunk)
            except ApiError as error:
                bulk.refuse_records(chunk, chunk.count - chunk.appended, error)
                return self._refuse_rest(bulk, topic, rows, error)
            # Each chunk hands the GIL over once, which beside a busy thread costs 5 ms.
            capacity = min(capacity * 2, MOST_CHUNK_RECORDS)
        return 0

    cdef int _send_plain(
        self, BulkFuture bulk, object topic, object values, object keys, int64_t timestamp_ms
    ) except -1:
        """Lists of values, and perhaps keys: looked at in a loop without calls."""
        cdef RecordChunk chunk
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t count = len(values)
        cdef Topic* native = self._bulk_topic(bulk, topic, range(count))
        while native != NULL and at < count:
            part = list(values[at:at + MOST_PLAIN_RECORDS])
            part_keys = None if keys is None else list(keys[at:at + MOST_PLAIN_RECORDS])
            if len(part) != min(count - at, MOST_PLAIN_RECORDS) or (
                    keys is not None and len(part_keys) != len(part)):
                raise ValueError("a column of a send_many() changed its length meanwhile")
            chunk = RecordChunk.__new__(RecordChunk, <int32_t>len(part))
            while chunk.count < len(part):
                try:
                    chunk.add_plain(part, part_keys, timestamp_ms)
                except MemoryError:
                    raise
                except Exception as error:
                    chunk.refuse(_row_error(error))
                    self._count_error(topic)
            at += len(part)
            try:
                self._append_chunk(bulk, native, chunk)
            except ApiError as error:
                bulk.refuse_records(chunk, chunk.count - chunk.appended, error)
                return self._refuse_rest(bulk, topic, range(count - at), error)
        return 0

    cdef Topic* _bulk_topic(self, BulkFuture bulk, object topic, object rows) except? NULL:
        """The topic, or NULL: its metadata did not come, and every row is refused."""
        cdef int64_t waited_ns = 0
        try:
            bulk.topic_slots[0].topic = self._topic(topic, ANY_PARTITION, &waited_ns)
        except ApiError as error:
            self._refuse_rest(bulk, topic, rows, error)
        return bulk.topic_slots[0].topic

    cdef int _refuse_rest(self, BulkFuture bulk, object topic, object rows, object error) except -1:
        """No metadata, or no memory in time: the rest does not wait for it once more each."""
        cdef int64_t refused = 0
        for _ in rows:
            refused += 1
        bulk.refuse(refused, error)
        self._count_error(topic)
        return 0

    cdef int _check_partitions(self, object topic, Topic* native, RecordChunk chunk,
                               dict missing, int64_t* waited_ns) except -1:
        """Those that the caller chose must exist, or come to exist in time (P-A.4), which is one
        for the whole bulk; `missing` has the errors of those that did not."""
        cdef int32_t i
        cdef int32_t partition
        for i in range(chunk.count):
            partition = chunk.partitions[i]
            if partition < native.partition_count:
                continue
            if partition not in missing:
                try:
                    self._topic(topic, partition, waited_ns)
                    continue
                except ApiError as error:
                    waited_ns[0] = self.max_block_ns    # the same answer would tell of the others
                    missing[partition] = error.with_traceback(None)
                    self._count_error(topic)
            chunk.refuse_at(i, missing[partition])
        return 0

    cdef int _append_chunk(self, BulkFuture bulk, Topic* native, RecordChunk chunk) except -1:
        """Append all of a chunk; records that are too large are refused one by one."""
        cdef MemoryLine line
        cdef uint32_t epoch = fork_epoch()
        cdef int64_t largest = min(self.max_record_bytes, self.buffer_bytes)
        cdef FpStatus status
        line.is_waiting = False
        line.is_delivery = is_delivering(&self.engine_.accumulator.incomplete)
        self._refuse_parents()
        self._end_if_called_off()
        bulk.reserve(chunk.count)
        check(bulk.note_chunk(chunk))
        try:
            while chunk.appended < chunk.count:
                with nogil:
                    if chunk.has_keys and not self.ignores_keys and not chunk.is_placed:
                        chunk.place_by_key(native.partition_count)
                    status = bulk.append_chunk(
                        &self.engine_.accumulator, chunk, largest, &line)
                self._after_append(bulk, chunk, status, &line, epoch)
        finally:
            self._leave_line(&line, epoch)
        return 0

    cdef int _after_append(self, BulkFuture bulk, RecordChunk chunk, FpStatus status,
                           MemoryLine* line, uint32_t epoch) except -1:
        """Signals get their turn; raises unless the appending can go on."""
        PyErr_CheckSignals()
        if status != FP_OK:
            self._end_if_called_off()
        if fork_epoch() != epoch:
            raise ProducerClosedError(
                "a signal handler forked during a bulk: what waits is the parent's; in the child "
                "send the records again")
        if status == FP_BLOCKED:
            if fp_now_ns() - line.since_ns >= self.max_block_ns:
                raise self._exhausted(self.max_block_ns)
        elif status == FP_EXHAUSTED:
            raise self._exhausted(0)
        elif status == FP_TOO_LARGE:
            self._refuse_next(bulk, chunk)
        elif status == FP_CLOSED:
            self._refuse_late()
        elif status == FP_NOMEM:
            raise MemoryError("no memory for a batch")
        return 0

    cdef int _refuse_next(self, BulkFuture bulk, RecordChunk chunk) except -1:
        """The chunk's next record is too large, or not to be sent, as others behind it."""
        cdef int32_t first = chunk.appended
        cdef int32_t end = first + 1
        cdef int32_t cause = chunk.partitions[first]
        cdef uint32_t topic_slot = chunk.topic_slots[first] if chunk.topic_slots != NULL else 0
        topic = bulk.topics[topic_slot]
        if cause >= ANY_PARTITION:
            bulk.refuse_records(chunk, 1, self._too_large(
                topic, record_upper_bound(&chunk.records[first])))
            self._count_error(topic)
            return 0
        while end < chunk.count and chunk.partitions[end] == cause and (
                chunk.topic_slots == NULL or chunk.topic_slots[end] == topic_slot):
            end += 1
        error = chunk.refusals.get((cause, topic_slot))
        if error is None:
            error = KafkaError(f"topic {topic!r} lost partitions while records were sent to them")
        return bulk.refuse_records(chunk, end - first, error)

    cdef int _leave_line(self, MemoryLine* line, uint32_t epoch) except -1:
        cdef Slab* chain = NULL
        if line.is_waiting and fork_epoch() == epoch:
            if pool_cancel(&self.engine_.accumulator.pool, &line.waiter, True, &chain) == FP_OK:
                self._give_back(<size_t>chain)
        return 0
