"""Bodies of the bulk future; the contract is in bulk.pxd."""
import logging

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastprod._core.accumulator cimport (
    ANY_PARTITION, Accumulator, Appended, Topic, accumulator_append, accumulator_kick,
)
from fastprod._core.buffer_pool cimport Slab, pool_give, pool_queue, pool_wait
from fastprod._core.bulk_rows cimport REFUSED, UNKNOWN_SIZE, Row, Segment, collect_ranges
from fastprod._core.delivery cimport (
    ERR_NONE, RESULT_SPLIT, Result, result_release, result_resolve, result_retain, result_urge,
    result_wait,
)
from fastprod._core.future cimport CALL_FUTURE, RecordFuture, check_fork, new_future, settled_state
from fastprod._core.record_batch cimport Record, record_upper_bound
from fastprod._core.record_chunk cimport RecordChunk
from fastprod._core.status cimport (
    FP_BLOCKED, FP_EXHAUSTED, FP_NOMEM, FP_OK, FP_TIMEDOUT, FP_TOO_LARGE, FpStatus,
)
from fastprod._core.sync cimport fp_load_i32_acq, fp_now_ns

from fastprod.errors import BulkError
from fastprod.records import BulkMetadata, FailedRow

_log = logging.getLogger("fastprod.delivery")

cdef enum:
    SLICE_NS = 50000000
    LONGEST_S = 2000000000
    LONGEST_RUN = 64            # records looked at in advance; they stay in the nearest cache


cdef inline int32_t _run_end(RecordChunk chunk, int64_t max_record_bytes) noexcept nogil:
    """Where the next records that go to one partition and may be sent end; here: not the first."""
    cdef int32_t first = chunk.appended
    cdef int32_t i = first
    cdef int32_t end = min(chunk.count, first + LONGEST_RUN)
    if chunk.partitions[first] < ANY_PARTITION:
        return first
    while (
        i < end
        and chunk.partitions[i] == chunk.partitions[first]
        and (chunk.lanes == NULL or chunk.lanes[i] == chunk.lanes[first])
        and record_upper_bound(&chunk.records[i]) <= max_record_bytes
    ):
        i += 1
    return i


cdef inline void _note_rows(
    Row* rows, const Record* records, const Appended* appended, uint32_t segment
) noexcept nogil:
    """They are in the batch of the segment, of which this is 1 + its number."""
    cdef uint32_t i
    for i in range(appended.count):
        rows[i].segment = segment - 1
        rows[i].index = appended.index + i
        rows[i].key_size = records[i].key_size
        rows[i].value_size = records[i].value_size


cdef class BulkFuture:
    """The delivery of all records of one bulk. See bulk.pyi."""

    def __cinit__(self):
        self.topics = []
        self.refusals = []
        self.refusal_numbers = {}
        self.callbacks = None

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.segment_count):
            result_release(self.segments[i].result)
        for i in range(self.lane_count):
            free(self.lanes[i].newest)
        free(self.lanes)
        free(self.segments)
        free(self.rows)

    cdef int add_lane(self, object topic, Topic* native) except -1:
        cdef Lane* grown
        if self.lane_count & (self.lane_count - 1) == 0:    # room for a power of two
            grown = <Lane*>realloc(
                self.lanes, max(<uint32_t>1, self.lane_count * 2) * sizeof(Lane))
            if grown == NULL:
                raise MemoryError(f"no memory for {self.lane_count:,} topics of a bulk")
            self.lanes = grown
        memset(&self.lanes[self.lane_count], 0, sizeof(Lane))
        self.lanes[self.lane_count].topic = native
        self.lane_count += 1
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
        self.capacity = capacity
        return 0

    cdef FpStatus append_chunk(
        self, Accumulator* a, RecordChunk chunk, int64_t max_record_bytes, MemoryLine* line
    ) noexcept nogil:
        cdef FpStatus status
        cdef Slab* extra = NULL
        cdef size_t need_bytes = 0
        while True:
            if line.is_waiting:
                status = pool_wait(&a.pool, &line.waiter, fp_now_ns() + SLICE_NS, &extra)
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
        cdef Lane* lane
        cdef uint32_t lane_index = 0
        cdef uint32_t segment
        cdef int32_t partition
        cdef int32_t run_end = chunk.appended
        while chunk.appended < chunk.count:
            if chunk.appended == run_end:
                run_end = _run_end(chunk, max_record_bytes)
                if chunk.appended == run_end:
                    pool_give(&a.pool, extra)
                    return FP_TOO_LARGE
            partition = chunk.partitions[chunk.appended]
            if chunk.lanes != NULL:
                lane_index = chunk.lanes[chunk.appended]
            lane = &self.lanes[lane_index]
            # A batch that we hold already costs no reference.
            segment = lane.sticky
            if partition >= 0:
                segment = lane.newest[partition] if partition < lane.partition_capacity else 0
            appended.known = self.segments[segment - 1].result if segment > 0 else NULL
            status = accumulator_append(
                a, lane.topic, partition, &chunk.records[chunk.appended],
                <uint32_t>(run_end - chunk.appended), extra, NULL, &appended)
            extra = NULL
            if status != FP_OK:
                need_bytes[0] = appended.need_bytes
                return status
            if appended.result != appended.known:
                segment = self._find_segment(lane_index, partition, segment, &appended)
                if segment == 0:
                    return FP_NOMEM
            _note_rows(&self.rows[self.count], &chunk.records[chunk.appended], &appended, segment)
            self.count += appended.count
            chunk.appended += appended.count
        return FP_OK

    cdef uint32_t _find_segment(
        self, uint32_t lane_index, int32_t partition, uint32_t guess, Appended* appended
    ) noexcept nogil:
        """1 + the segment of a batch that was not the one expected; 0: no memory."""
        cdef Lane* lane = &self.lanes[lane_index]
        cdef uint32_t* grown
        cdef uint32_t segment
        cdef int32_t target = appended.partition
        if target >= lane.partition_capacity:
            grown = <uint32_t*>realloc(lane.newest, (target + 1) * 2 * sizeof(uint32_t))
            if grown == NULL:
                result_release(appended.result)
                return 0
            memset(grown + lane.partition_capacity, 0,
                   ((target + 1) * 2 - lane.partition_capacity) * sizeof(uint32_t))
            lane.newest = grown
            lane.partition_capacity = (target + 1) * 2
        segment = lane.newest[target]
        if segment > 0 and self.segments[segment - 1].result == appended.result:
            result_release(appended.result)
        else:
            segment = self._note_segment(appended.result, lane_index)
            lane.newest[target] = segment
        if partition < 0:
            lane.sticky = segment
        return segment

    cdef uint32_t _note_segment(self, Result* result, uint32_t lane) noexcept nogil:
        """Takes a reference over; 1 + its number, 0: no memory."""
        cdef uint32_t capacity
        cdef Segment* grown
        if self.segment_count == self.segment_capacity:
            capacity = max(<uint32_t>16, self.segment_capacity * 2)
            grown = <Segment*>realloc(self.segments, capacity * sizeof(Segment))
            if grown == NULL:
                result_release(result)
                return 0
            self.segments = grown
            self.segment_capacity = capacity
        self.segments[self.segment_count].result = result
        self.segments[self.segment_count].lane = lane
        self.segment_count += 1
        return self.segment_count

    cdef uint32_t _refusal(self, object error, uint32_t lane) except? 0xFFFFFFFFU:
        """The number of this error for this topic: one for all rows that share them."""
        found = self.refusal_numbers.get((id(error), lane))
        if found is None:
            found = self.refusal_numbers[id(error), lane] = len(self.refusals)
            self.refusals.append((error, lane))
        return found

    cdef int refuse(self, int64_t count, object error) except -1:
        cdef int64_t i
        cdef uint32_t number
        cdef Row* row
        if count == 0:
            return 0
        self.reserve(count)
        number = self._refusal(error, 0)
        for i in range(count):
            row = &self.rows[self.count + i]
            row.segment = REFUSED
            row.index = number
            row.key_size = UNKNOWN_SIZE
            row.value_size = UNKNOWN_SIZE
        self.count += count
        return 0

    cdef int refuse_records(self, RecordChunk chunk, int32_t count, object error) except -1:
        cdef int32_t i
        cdef int32_t at = chunk.appended
        cdef uint32_t lane = 0
        cdef uint32_t number = 0
        cdef Row* row
        self.reserve(count)
        for i in range(count):
            if i == 0 or (chunk.lanes != NULL and chunk.lanes[at] != lane):
                lane = chunk.lanes[at] if chunk.lanes != NULL else 0
                number = self._refusal(error, lane)
            row = &self.rows[self.count]
            row.segment = REFUSED
            row.index = number
            row.key_size = chunk.records[at].key_size
            row.value_size = chunk.records[at].value_size
            self.count += 1
            at += 1
        chunk.appended = at
        return 0

    cdef int add_future(self, RecordFuture future) except -1:
        """Take over a record that was sent by itself; one that failed in `send` is refused."""
        cdef Row* row
        if future.result_ == NULL:
            return self.refuse(1, future.outcome())
        self.reserve(1)
        if self.segment_count == 0 or (
            self.segments[self.segment_count - 1].result != future.result_
        ):
            result_retain(future.result_)
            if self._note_segment(future.result_, 0) == 0:
                raise MemoryError("no memory for a bulk's segment")
        row = &self.rows[self.count]
        row.segment = self.segment_count - 1
        row.index = future.index
        row.key_size = future.key_size
        row.value_size = future.value_size
        self.count += 1
        return 0

    def __len__(self):
        return self.count

    def done(self):
        """Whether all records are done; never blocks."""
        cdef int64_t at = 0
        self._check_fork()
        return self._wait_slice(&at, settled_state(), 0) == FP_OK

    cdef int _check_fork(self) except -1:
        if self.segment_count > 0:
            check_fork(self.segments[0].result)
        return 0

    cdef bint _is_settled(
        self, Result* result, int32_t settled, int64_t until_ns
    ) noexcept nogil:
        """Wait for it until `until_ns` (0: not at all)."""
        while fp_load_i32_acq(&result.state) < settled:
            if until_ns == 0 or fp_now_ns() >= until_ns:
                return False
            result_urge(result)
            result_wait(result, until_ns)
        return True

    cdef FpStatus _wait_slice(
        self, int64_t* at, int32_t settled, int64_t until_ns
    ) noexcept nogil:
        """Walk on from at[0] (0 at first) over the batches, then over the records of those that
        were split, while they are settled. FP_OK: all are; FP_TIMEDOUT: not this one."""
        cdef uint32_t index
        cdef bint has_split = False
        cdef Segment* segment
        cdef Result* result
        cdef Row* row
        while at[0] < self.segment_count:
            if not self._is_settled(self.segments[at[0]].result, settled, until_ns):
                return FP_TIMEDOUT
            at[0] += 1
        for index in range(self.segment_count):
            has_split |= self.segments[index].result.state == RESULT_SPLIT
        while has_split and at[0] - self.segment_count < self.count:
            row = &self.rows[at[0] - self.segment_count]
            segment = &self.segments[row.segment] if row.segment != REFUSED else NULL
            if segment != NULL and segment.result.state == RESULT_SPLIT:
                index = row.index
                result = result_resolve(segment.result, &index)
                if not self._is_settled(result, settled, until_ns):
                    return FP_TIMEDOUT
                if fp_load_i32_acq(&result.state) == RESULT_SPLIT:
                    continue
            at[0] += 1
        return FP_OK

    cdef int _wait(self, object timeout) except -1:
        """One hand-over of the GIL for each slice, however many batches there are."""
        cdef int64_t deadline_ns = 0x7FFFFFFFFFFFFFFF
        cdef int64_t at = 0
        cdef int32_t settled = settled_state()
        cdef FpStatus status
        if timeout is not None:
            deadline_ns = fp_now_ns() + <int64_t>(min(max(0.0, float(timeout)), LONGEST_S) * 1e9)
        self._check_fork()
        while self._wait_slice(&at, settled, 0) != FP_OK:
            with nogil:
                status = self._wait_slice(&at, settled, min(deadline_ns, fp_now_ns() + SLICE_NS))
            PyErr_CheckSignals()
            self._check_fork()
            if status != FP_OK and fp_now_ns() >= deadline_ns:
                raise TimeoutError(
                    f"not all of {self.count:,} records for topic {self.topic!r} were "
                    f"acknowledged within {float(timeout) * 1000:,.0f} ms; they may still "
                    f"arrive: wait again, or look at delivery_timeout_ms")
        return 0

    @property
    def topic(self):
        """The topic's name; None: there are several."""
        return self.topics[0] if len(self.topics) == 1 else None

    cdef object _topic_of(self, int64_t i):
        cdef Row* row = &self.rows[i]
        if row.segment == REFUSED:
            return self.topics[self.refusals[row.index][1]]
        return self.topics[self.segments[row.segment].lane]

    cdef object _error(self, int64_t i):
        """The error of row `i`, or None."""
        cdef Row* row = &self.rows[i]
        cdef uint32_t index = row.index
        cdef Result* result
        cdef RecordFuture future
        if row.segment == REFUSED:
            return self.refusals[index][0]
        result = self.segments[row.segment].result
        if result_resolve(result, &index).error_code == ERR_NONE:
            return None
        result_retain(result)
        future = new_future(self._topic_of(i), result, row.index)
        return future.outcome()

    cdef int64_t _next_failed(self, int64_t i) noexcept nogil:
        """The first failed row from `i` on, or the number of rows."""
        cdef uint32_t index
        while i < self.count:
            if self.rows[i].segment == REFUSED:
                return i
            index = self.rows[i].index
            if result_resolve(
                    self.segments[self.rows[i].segment].result, &index).error_code != ERR_NONE:
                return i
            i += 1
        return i

    def failures(self, timeout=None):
        """[(index, error)] of the records that were not delivered; waits as `result` does."""
        return [(failed.row, failed.error) for failed in self.failed_rows(timeout)]

    def failed_rows(self, timeout=None):
        """A FailedRow for each record that was not delivered; waits as `result` does."""
        cdef int64_t i = 0
        cdef int32_t key_size, value_size
        self._wait(timeout)
        found = []
        while True:
            i = self._next_failed(i)
            if i == self.count:
                return found
            key_size, value_size = self.rows[i].key_size, self.rows[i].value_size
            found.append(FailedRow(
                i, self._topic_of(i),
                key_size if key_size != UNKNOWN_SIZE else None,
                value_size if value_size != UNKNOWN_SIZE else None, self._error(i)))
            i += 1

    cdef bint _has_failed(self):
        cdef uint32_t i
        if self.refusals:
            return True
        for i in range(self.segment_count):
            if self.segments[i].result.child_count > 0:
                return self._next_failed(0) < self.count
            if self.segments[i].result.error_code != ERR_NONE:
                return True
        return False

    def delivered(self, timeout=None):
        """The BulkMetadata of the records that were delivered; waits as `result` does."""
        self._wait(timeout)
        count, size, ranges = collect_ranges(
            self.rows, self.count, self.segments, self.segment_count, self.topics)
        return BulkMetadata(self.topic, count, ranges, size)

    def exception(self, timeout=None):
        """Return a BulkError if some records failed, else None; waits up to `timeout` seconds."""
        cdef int64_t i, first
        cdef int64_t failed = 0
        self._wait(timeout)
        if not self._has_failed():
            return None
        i = first = self._next_failed(0)
        while i < self.count:
            failed += 1
            i = self._next_failed(i + 1)
        error = BulkError(failed, self.count, first)
        error.__cause__ = self._error(first)
        return error

    def result(self, timeout=None):
        """Return the BulkMetadata or raise BulkError; waits up to `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.delivered()

    def get(self, timeout=None):
        """`result` by kafka-python's name."""
        return self.result(timeout)

    def cancel(self):
        """Return False: records cannot be taken back."""
        return False

    def add_done_callback(self, function):
        """Call `function(future)` on the delivery thread once all records are done."""
        cdef uint32_t i
        cdef RecordFuture part
        if not callable(function):
            raise TypeError(f"a callback must be callable, not {type(function).__name__}")
        if self.callbacks is not None:
            self.callbacks.append(function)
            if self.pending_parts == 0:
                self._finish()
            return
        self.callbacks = [function]
        parts = []
        for i in range(self.segment_count):
            result_retain(self.segments[i].result)
            parts.append(
                new_future(self.topics[self.segments[i].lane], self.segments[i].result, 0))
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
            except Exception:
                _log.exception("a delivery callback of a bulk failed")
