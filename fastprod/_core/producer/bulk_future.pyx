"""Queues the rows of a bulk, waits for them, and tells what became of each."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastprod._core.bytes.buffer_pool cimport pool_give, pool_queue, pool_wait
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_EXHAUSTED, FP_NOMEM, FP_OK, FP_TOO_LARGE, FpStatus, check,
)
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_now_ns
from fastprod._core.delivery.async_record_future cimport await_batch
from fastprod._core.delivery.future cimport (
    CALL_FUTURE, RecordFuture, callback_failed, check_fork, need_drain, new_future, settled_state,
)
from fastprod._core.delivery.result cimport (
    ERR_NONE, Result, fork_epoch, result_release, result_resolve, result_retain,
)
from fastprod._core.engine.accumulator cimport (
    Accumulator, Appended, Topic, accumulator_append, accumulator_kick,
)
from fastprod._core.producer.bulk_rows cimport (
    REFUSED, UNKNOWN_SIZE, BatchRef, Row, TopicSlot, collect_arrays, collect_ranges, parts_free,
    parts_grow, parts_note, row_size, rows_count_done, rows_first_indexes, rows_list,
    rows_next_failed, rows_note, rows_pending, rows_wait, sizes_note, slot_reserve,
)
from fastprod._core.producer.record_chunk cimport RecordChunk, chunk_row, chunk_run_end
from fastprod._core.producer.withdrawal cimport is_withdrawn, withdraw
from fastprod._core.records.record_batch cimport Record

from fastprod.deadline import seconds_of
from fastprod.errors import BulkError, ForkedFutureError
from fastprod.records import BulkArrays, BulkMetadata, FailedRow


cdef enum:
    SLICE_NS = 50000000
    LONGEST_S = 2000000000


cdef class BulkFuture:
    """The delivery of all records of one `KafkaProducer.send_many` or `append_columns`.

    ``len(future)`` is the number of records. A row is a record's 0-based index in the columns that
    were sent. It takes 8 bytes a record, and 8 more if their timestamps differ, 4 more if the sizes
    of their keys do, 4 if those of their values do; and one reference a batch.

    Threads: any.  After `os.fork` all methods but `cancel` and `cancelled` raise ForkedFutureError
    in the child.
    Source: KafkaProducer.send; contract P-A.3.13, for many records.
    """

    def __cinit__(self):
        self.topics = []
        self.refusals = []
        self.refusal_numbers = {}
        self.callbacks = None

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.batch_ref_count):
            result_release(self.batch_refs[i].result)
        for i in range(self.topic_slot_count):
            free(self.topic_slots[i].newest)
        free(self.topic_slots)
        free(self.batch_refs)
        free(self.rows)
        parts_free(&self.parts)

    cdef int add_topic(self, object topic, Topic* native) except -1:
        cdef TopicSlot* grown
        if self.topic_slot_count & (self.topic_slot_count - 1) == 0:    # room for a power of two
            grown = <TopicSlot*>realloc(
                self.topic_slots, max(<uint32_t>1, self.topic_slot_count * 2) * sizeof(TopicSlot))
            if grown == NULL:
                raise MemoryError(f"no memory for {self.topic_slot_count:,} topics of a bulk")
            self.topic_slots = grown
        memset(&self.topic_slots[self.topic_slot_count], 0, sizeof(TopicSlot))
        self.topic_slots[self.topic_slot_count].topic = native
        self.topic_slot_count += 1
        self.topics.append(topic)
        return 0

    cdef int reserve(self, int64_t records) except -1:
        """Make room for so many more rows."""
        cdef int64_t capacity = max(self.capacity * 2, self.count + records)
        cdef Row* grown
        if self.count + records <= self.capacity:
            return 0
        grown = <Row*>realloc(self.rows, capacity * sizeof(Row))
        if grown == NULL:
            raise MemoryError(f"no memory for a bulk of {capacity:,} records")
        self.rows = grown
        if not parts_grow(&self.parts, capacity):
            raise MemoryError(f"no memory for timestamps and sizes of {capacity:,} records")
        self.capacity = capacity
        return 0

    cdef FpStatus note_chunk(self, RecordChunk chunk) noexcept nogil:
        return parts_note(&self.parts, self.count, self.capacity, chunk.records, chunk.count)

    cdef FpStatus append_chunk(
        self, Accumulator* a, RecordChunk chunk, int64_t max_record_bytes, MemoryLine* line
    ) noexcept nogil:
        cdef FpStatus status
        cdef Slab* extra = NULL
        cdef size_t need_bytes = 0
        cdef int64_t until_ns = fp_now_ns() + SLICE_NS      # of all waits, however short each is
        while True:
            if line.is_waiting:
                status = pool_wait(&a.pool, &line.waiter, until_ns, &extra)
                if status == FP_BLOCKED:
                    return FP_BLOCKED
                line.is_waiting = False
                if status != FP_OK:
                    return status
            status = self._append(a, chunk, max_record_bytes, extra, &need_bytes)
            extra = NULL
            if status != FP_EXHAUSTED:
                return status
            line.since_ns = fp_now_ns()
            status = pool_queue(
                &a.pool, &line.waiter, need_bytes, line.is_delivery, &extra)
            accumulator_kick(a)
            line.is_waiting = status == FP_BLOCKED
            if status != FP_OK and status != FP_BLOCKED:
                return status

    cdef FpStatus _append(
        self, Accumulator* a, RecordChunk chunk, int64_t max_record_bytes, Slab* extra,
        size_t* need_bytes
    ) noexcept nogil:
        """Until all are in, or the first that does not go in. Takes `extra` over."""
        cdef Appended appended
        cdef FpStatus status
        cdef TopicSlot* topic_slot
        cdef uint32_t slot_index = 0
        cdef uint32_t batch_ref
        cdef int32_t partition
        cdef int32_t run_end = chunk.appended
        cdef Row* rows = self.rows + self.count - chunk.appended
        while chunk.appended < chunk.count:
            if chunk.appended == run_end:
                run_end = chunk_run_end(chunk, max_record_bytes)
                if chunk.appended == run_end:
                    pool_give(&a.pool, extra)
                    return FP_TOO_LARGE
            partition = chunk.partitions[chunk.appended]
            if chunk.topic_slots != NULL:
                slot_index = chunk.topic_slots[chunk.appended]
            topic_slot = &self.topic_slots[slot_index]
            # A batch that we hold already costs no reference.
            batch_ref = topic_slot.sticky
            if partition >= 0:
                batch_ref = 0
                if partition < topic_slot.partition_capacity:
                    batch_ref = topic_slot.newest[partition]
            appended.waits = 0
            appended.owner = NULL
            appended.known = self.batch_refs[batch_ref - 1].result if batch_ref > 0 else NULL
            status = accumulator_append(
                a, topic_slot.topic, partition, &chunk.records[chunk.appended],
                <uint32_t>(run_end - chunk.appended), extra, NULL, &appended)
            extra = NULL
            if status != FP_OK:
                need_bytes[0] = appended.need_bytes
                return status
            if appended.result != appended.known:
                batch_ref = self._find_batch(slot_index, partition, batch_ref, &appended)
                if batch_ref == 0:
                    return FP_NOMEM
            rows_note(rows, chunk.row_of, chunk.appended, &appended, batch_ref)
            self.count += appended.count
            chunk.appended += appended.count
        return FP_OK

    cdef uint32_t _find_batch(
        self, uint32_t slot_index, int32_t partition, uint32_t guess, Appended* appended
    ) noexcept nogil:
        """1 + the batch_ref of a batch that was not the one expected; 0: no memory."""
        cdef TopicSlot* topic_slot = &self.topic_slots[slot_index]
        cdef uint32_t batch_ref
        cdef int32_t target = appended.partition
        if not slot_reserve(topic_slot, target):
            result_release(appended.result)
            return 0
        batch_ref = topic_slot.newest[target]
        if batch_ref > 0 and self.batch_refs[batch_ref - 1].result == appended.result:
            result_release(appended.result)
        else:
            batch_ref = self._note_batch(appended.result, slot_index)
            topic_slot.newest[target] = batch_ref
        if partition < 0:
            topic_slot.sticky = batch_ref
        return batch_ref

    cdef uint32_t _note_batch(self, Result* result, uint32_t topic_slot) noexcept nogil:
        """Takes a reference over; 1 + its number, 0: no memory."""
        cdef uint32_t capacity
        cdef BatchRef* grown
        if self.batch_ref_count == self.batch_ref_capacity:
            capacity = max(<uint32_t>16, self.batch_ref_capacity * 2)
            grown = <BatchRef*>realloc(self.batch_refs, capacity * sizeof(BatchRef))
            if grown == NULL:
                result_release(result)
                return 0
            self.batch_refs = grown
            self.batch_ref_capacity = capacity
        self.batch_refs[self.batch_ref_count].result = result
        self.batch_refs[self.batch_ref_count].topic_slot = topic_slot
        self.batch_ref_count += 1
        return self.batch_ref_count

    cdef uint32_t _refusal(self, object error, uint32_t topic_slot) except? 0xFFFFFFFFU:
        """The number of this error for this topic: one for all rows that share them."""
        found = self.refusal_numbers.get((id(error), topic_slot))
        if found is None:
            found = self.refusal_numbers[id(error), topic_slot] = len(self.refusals)
            self.refusals.append((error, topic_slot))
        return found

    cdef int refuse(self, int64_t count, object error) except -1:
        cdef int64_t i
        cdef uint32_t number
        cdef Record record
        if count == 0:
            return 0
        self.reserve(count)
        number = self._refusal(error, 0)
        record.key_size = record.value_size = UNKNOWN_SIZE
        for i in range(self.count, self.count + count):
            check(sizes_note(&self.parts, i, self.capacity, &record, 1))
            self.rows[i].batch_ref = REFUSED
            self.rows[i].index = number
        self.count += count
        return 0

    cdef int refuse_records(self, RecordChunk chunk, int32_t count, object error) except -1:
        cdef int32_t i
        cdef int32_t at = chunk.appended
        cdef uint32_t topic_slot = 0
        cdef uint32_t number = 0
        cdef int64_t first = self.count - chunk.appended
        cdef Row* row
        for i in range(count):
            if i == 0 or (chunk.topic_slots != NULL and chunk.topic_slots[at] != topic_slot):
                topic_slot = chunk.topic_slots[at] if chunk.topic_slots != NULL else 0
                number = self._refusal(error, topic_slot)
            row = &self.rows[first + chunk_row(chunk, at)]
            row.batch_ref = REFUSED
            row.index = number
            self.count += 1
            at += 1
        chunk.appended = at
        return 0

    cdef int add_future(self, RecordFuture future) except -1:
        """Take over a record that was sent by itself; one that failed in `send` is refused."""
        cdef Row* row
        cdef Record record
        if future.result_ == NULL:
            return self.refuse(1, future.outcome())
        self.reserve(1)
        record.timestamp_ms = future.timestamp_ms
        record.key_size = future.key_size
        record.value_size = future.value_size
        check(parts_note(&self.parts, self.count, self.capacity, &record, 1))
        if self.batch_ref_count == 0 or (
            self.batch_refs[self.batch_ref_count - 1].result != future.result_
        ):
            result_retain(future.result_)
            if self._note_batch(future.result_, 0) == 0:
                raise MemoryError("no memory for a bulk's batches")
        row = &self.rows[self.count]
        row.batch_ref = self.batch_ref_count - 1
        row.index = future.index
        self.count += 1
        return 0

    def __len__(self):
        return self.count

    def done(self):
        """Return whether all records are done and their callbacks have run.  Never blocks."""
        cdef int64_t at = 0
        self._check_fork()
        return self._wait_slice(&at, settled_state(), 0) == FP_OK

    def __repr__(self):
        cdef int64_t done
        cdef int64_t failed = 0
        topics = f"topic={self.topics[0]!r}" if len(self.topics) == 1 else (
            f"{len(self.topics):,} topics")
        try:
            self._check_fork()
        except ForkedFutureError:
            return f"<BulkFuture {topics} {self.count:,} rows, of the parent process>"
        done = rows_count_done(
            self.rows, self.count, self.batch_refs, settled_state(), &failed)
        return f"<BulkFuture {topics} {self.count:,} rows, {done:,} done, {failed:,} failed>"

    cdef int _check_fork(self) except -1:
        if self.batch_ref_count > 0:
            check_fork(self.batch_refs[0].result)
        return 0

    cdef FpStatus _wait_slice(
        self, int64_t* at, int32_t settled, int64_t until_ns
    ) noexcept nogil:
        return rows_wait(self.rows, self.count, self.batch_refs, self.batch_ref_count, at, settled,
                         until_ns)

    cdef int _wait(self, object timeout) except -1:
        """One hand-over of the GIL for each slice, however many batches there are."""
        cdef int64_t deadline_ns = 0x7FFFFFFFFFFFFFFF
        cdef int64_t at = 0
        cdef int32_t settled = settled_state()
        cdef FpStatus status
        if timeout is not None:
            if type(timeout) not in (int, float):
                timeout = seconds_of("timeout", timeout)
            deadline_ns = fp_now_ns() + <int64_t>(min(max(0.0, timeout), LONGEST_S) * 1e9)
        self._check_fork()
        while self._wait_slice(&at, settled, 0) != FP_OK:
            with nogil:
                status = self._wait_slice(&at, settled, min(deadline_ns, fp_now_ns() + SLICE_NS))
            PyErr_CheckSignals()
            self._check_fork()
            if status != FP_OK and fp_now_ns() >= deadline_ns:
                raise TimeoutError(
                    f"not all of {self.count:,} records for topic {self.topic!r} were "
                    f"acknowledged within {timeout * 1000:,.0f} ms; they may still "
                    f"arrive: wait again, or look at delivery_timeout_ms")
        return 0

    @property
    def topic(self):
        """The topic's name; None if the records go to several topics.  Never blocks."""
        return self.topics[0] if len(self.topics) == 1 else None

    cdef object _topic_of(self, int64_t i):
        cdef Row* row = &self.rows[i]
        if row.batch_ref == REFUSED:
            return self.topics[self.refusals[row.index][1]]
        return self.topics[self.batch_refs[row.batch_ref].topic_slot]

    cdef object _error(self, int64_t i):
        """The error of row `i`, or None."""
        cdef Row* row = &self.rows[i]
        cdef uint32_t index = row.index
        cdef Result* result
        cdef RecordFuture future
        if row.batch_ref == REFUSED:
            return self.refusals[index][0]
        result = self.batch_refs[row.batch_ref].result
        if result_resolve(result, &index).error_code == ERR_NONE:
            return None
        result_retain(result)
        future = new_future(self._topic_of(i), result, row.index)
        return future.outcome()

    def failures(self, timeout=None):
        """Return a list of (row, `KafkaError`) of the records that were not delivered, by row.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: as `result`.
        """
        return [(failed.row, failed.error) for failed in self.failed_rows(timeout)]

    def failed_rows(self, timeout=None):
        """Return a `FailedRow` for each record that was not delivered, by row.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: as `result`.
        """
        cdef int64_t i = 0
        cdef int32_t key_size, value_size
        self._wait(timeout)
        found = []
        while True:
            i = rows_next_failed(self.rows, self.count, self.batch_refs, i)
            if i == self.count:
                return found
            key_size = row_size(&self.parts.key_sizes, i)
            value_size = row_size(&self.parts.value_sizes, i)
            found.append(FailedRow(
                i, self._topic_of(i),
                key_size if key_size != UNKNOWN_SIZE else None,
                value_size if value_size != UNKNOWN_SIZE else None, self._error(i)))
            i += 1

    cdef bint _has_failed(self):
        cdef uint32_t i
        if self.refusals:
            return True
        for i in range(self.batch_ref_count):
            if self.batch_refs[i].result.child_count > 0:
                return rows_next_failed(self.rows, self.count, self.batch_refs, 0) < self.count
            if self.batch_refs[i].result.error_code != ERR_NONE:
                return True
        return False

    def delivered(self, timeout=None):
        """Return the `BulkMetadata` of those records that were delivered; no BulkError.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: as `result`.
        """
        self._wait(timeout)
        count, size, ranges = collect_ranges(
            self.rows, self.count, &self.parts, self.batch_refs, self.batch_ref_count, self.topics)
        return BulkMetadata(self.topic, count, ranges, size)

    def arrays(self, timeout=None):
        """Return partition, offset and timestamp of each record as numpy arrays, a `BulkArrays`.

        No object is made for a record. The first call imports numpy.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: as `result`.
        """
        self._wait(timeout)
        return BulkArrays(
            *collect_arrays(self.rows, self.count, self.batch_refs, &self.parts.times))

    def exception(self, timeout=None):
        """Return a `BulkError` if some records were not delivered, else None. After a `cancel` that
        returned True it is a `concurrent.futures.CancelledError`, too.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: as `result`.
        """
        cdef int64_t i, first
        cdef int64_t failed = 0
        self._wait(timeout)
        if not self._has_failed():
            return None
        i = first = rows_next_failed(self.rows, self.count, self.batch_refs, 0)
        while i < self.count:
            failed += 1
            i = rows_next_failed(self.rows, self.count, self.batch_refs, i + 1)
        cause = self._error(first)
        error = BulkError(failed, self.count, first, str(cause))
        if self.cancelled():
            from fastprod._core.delivery.cancelled import BulkCancelledError
            error = BulkCancelledError(failed, self.count, first, str(cause))
        error.__cause__ = cause
        return error

    def result(self, timeout=None):
        """Return where the records were written, a `BulkMetadata`.

        Their batches are sent at once, whatever linger_ms says.

        Args:
            timeout: seconds, 0 or more; None, the default: as long as delivery_timeout_ms.

        Raises:
            BulkError: some records were not delivered, the others were; `failed_rows` lists them.
            TimeoutError: not all records were done in time; they may still be delivered.

        Blocks: up to `timeout`, without the GIL; Ctrl-C gets through within 50 ms.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.delivered()

    def get(self, timeout=None):
        """Return what `result(timeout)` returns, and raise what it raises; kafka-python's name.

        Blocks: as `result`: up to `timeout` seconds.
        """
        return self.result(timeout)

    def __await__(self):
        """Wait in the running event loop, not urgently; return and raise what `result` does."""
        cdef Result* result
        cdef int64_t at = 0
        while True:
            self._check_fork()
            result = rows_pending(self.rows, self.count, self.batch_refs, self.batch_ref_count, &at)
            if result == NULL:
                return self.result()
            result_retain(result)
            yield from await_batch(new_future(None, result, 0))

    def cancel(self):
        """Take back the records whose batches have not left.

        Of one batch all of them or none. Their rows fail with `RecordCancelledError`, and have -2
        among the partitions of `arrays`; all others are delivered, with the offsets that they would
        have had. If none is left, the future is done, and its callbacks have run when this returns,
        in this thread. The memory of a batch goes back when it leaves, or when nothing of it is
        left, also of other callers.

        Returns:
            True: every record that was queued is taken back, now or earlier, and none can arrive.
            False: some have left and may arrive, or are done, or none was queued, or this is the
            child of a fork; `failed_rows` lists those that were taken back.

        Raises:
            MemoryError: no memory to note it; what was not taken back by then is sent.

        Does not wait for the records.  Source: concurrent.futures.Future.cancel.
        """
        if self.batch_ref_count == 0 or self.batch_refs[0].result.fork_epoch != fork_epoch():
            return False
        told = []
        try:
            withdraw(self.rows, self.count, self.batch_refs, self.batch_ref_count, told)
        finally:
            for future in told:
                (<RecordFuture>future)._tell()
        return self.cancelled()

    def cancelled(self):
        """Return whether `cancel` has taken back every record that was queued.  Never blocks."""
        return self.batch_ref_count > 0 and is_withdrawn(self.batch_refs, self.batch_ref_count)

    def add_done_callback(self, function):
        """Call ``function(future)`` once all records are done.

        Args:
            function: called once, on the delivery thread; before this returns if all are done
                already. Its return value is ignored, and what it raises is logged.

        Raises:
            TypeError: `function` cannot be called.
            RuntimeError: the system gives no thread for callbacks; another call tries again.

        Does not wait for the records.
        """
        cdef uint32_t i
        cdef uint32_t* first
        cdef RecordFuture part
        if not callable(function):
            raise TypeError(f"a callback must be callable, not {type(function).__name__}")
        self._check_fork()
        # Now: what raises later would leave the parts half told. Others run meanwhile.
        need_drain(rows_list(self.batch_refs, self.batch_ref_count))
        if self.callbacks is not None:
            self.callbacks.append(function)
            if self.pending_parts == 0:
                self._finish()
            return
        first = rows_first_indexes(self.rows, self.count, self.batch_ref_count)
        if first == NULL:
            raise MemoryError("no memory for the callbacks of a bulk")
        self.callbacks = [function]
        parts = []
        for i in range(self.batch_ref_count):
            result_retain(self.batch_refs[i].result)
            topic = self.topics[self.batch_refs[i].topic_slot]
            parts.append(new_future(topic, self.batch_refs[i].result, first[i]))
        free(first)
        self.pending_parts = len(parts) + 1
        for part in parts:
            part._add((CALL_FUTURE, self._part_done, (), {}))
        self._part_done(None)

    def _part_done(self, part):
        self.pending_parts -= 1
        if self.pending_parts == 0:
            self._finish()

    def _finish(self):
        callbacks, self.callbacks = self.callbacks, []
        for function in callbacks:
            try:
                function(self)
            except BaseException as error:
                callback_failed(error, self)
