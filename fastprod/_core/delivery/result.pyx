"""Completes results, wakes who waits for them, and queues those with callbacks."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy

from fastprod._core.bytes.buffer_pool cimport pool_hold, pool_let_go
from fastprod._core.bytes.fp_status cimport FP_OK, FP_TIMEDOUT, FpStatus
from fastprod._core.bytes.sync cimport (
    fp_add_i32, fp_cond, fp_cond_broadcast, fp_cond_destroy, fp_cond_init, fp_cond_wait_until,
    fp_load_i32, fp_load_i32_acq, fp_mutex, fp_mutex_destroy, fp_mutex_init, fp_mutex_lock,
    fp_mutex_unlock, fp_store_i32, fp_store_ptr,
)
from fastprod._core.delivery.loop_queue cimport (
    LoopItem, LoopQueue, loop_item_add, loop_item_new, loop_item_remove,
    loop_queue_push,
)

cdef extern from "unistd.h" nogil:
    ssize_t write(int fd, const void* data, size_t size)

cdef enum:
    STRIPE_COUNT = 64

cdef struct Stripe:
    # Waiters on results meet here; a result's address chooses its stripe.
    fp_mutex lock
    fp_cond done

cdef Stripe _stripes[STRIPE_COUNT]
cdef uint32_t _fork_epoch = 1


cdef void _init_stripes() noexcept nogil:
    cdef int i
    for i in range(STRIPE_COUNT):
        fp_mutex_init(&_stripes[i].lock)
        fp_cond_init(&_stripes[i].done)


_init_stripes()


cdef uint32_t fork_epoch() noexcept nogil:
    return _fork_epoch


cdef void after_fork_in_child() noexcept nogil:
    """A parent thread may have held a stripe at the fork: start with fresh ones."""
    global _fork_epoch
    _fork_epoch += 1
    _init_stripes()


cdef inline Stripe* _stripe_of(Result* result) noexcept nogil:
    return &_stripes[(<uintptr_t>result >> 6) % STRIPE_COUNT]


cdef void incomplete_init(Incomplete* list) noexcept nogil:
    fp_mutex_init(&list.lock)
    fp_cond_init(&list.changed)
    fp_cond_init(&list.ready)
    list.oldest = list.newest = NULL
    list.next_number = 1
    list.batch_count = 0
    list.ready_head = list.ready_tail = NULL
    list.flushes = NULL
    list.closed = False
    list.has_ready = list.has_missed = list.drivers = 0
    list.pool = NULL
    list.ready_fd = -1
    list.urge = NULL
    list.take_back = NULL
    list.argument = NULL
    list.drive = NULL
    list.drive_argument = NULL


cdef void incomplete_destroy(Incomplete* list) noexcept nogil:
    fp_cond_destroy(&list.ready)
    fp_cond_destroy(&list.changed)
    fp_mutex_destroy(&list.lock)


cdef void incomplete_close(Incomplete* list) noexcept nogil:
    fp_mutex_lock(&list.lock)
    list.closed = True
    fp_cond_broadcast(&list.ready)
    fp_cond_broadcast(&list.changed)
    fp_mutex_unlock(&list.lock)


cdef Result* _result_blank(int32_t partition) noexcept nogil:
    cdef Result* result = <Result*>calloc(1, sizeof(Result))
    if result == NULL:
        return NULL
    result.refs = 1
    result.partition = partition
    result.base_offset = result.log_append_ms = result.base_sequence = -1
    result.fork_epoch = _fork_epoch
    return result


cdef Result* result_new(Incomplete* list, int32_t partition, void* origin) noexcept nogil:
    cdef Result* result = _result_blank(partition)
    if result == NULL:
        return NULL
    result.incomplete, result.origin = list, origin     # on the list a flush may find and drive it
    fp_mutex_lock(&list.lock)
    result.number = list.next_number
    list.next_number += 1
    list.batch_count += 1
    result.older = list.newest
    if list.newest != NULL:
        list.newest.newer = result
    else:
        list.oldest = result
    list.newest = result
    fp_mutex_unlock(&list.lock)
    return result


cdef Result* result_new_child(Result* parent) noexcept nogil:
    """Put the child in front of its parent: flush waits for it as it did for the parent
    (P-A.7.5).
    """
    cdef Incomplete* list = parent.incomplete
    cdef Result* result = _result_blank(parent.partition)
    if result == NULL:
        return NULL
    result.urgent = 1
    result.origin = parent.origin
    result.incomplete = list
    fp_mutex_lock(&list.lock)
    result.number = parent.number
    list.batch_count += 1
    result.newer = parent
    result.older = parent.older
    if parent.older != NULL:
        parent.older.newer = result
    else:
        list.oldest = result
    parent.older = result
    fp_mutex_unlock(&list.lock)
    return result


cdef void result_abandon(Result* result) noexcept nogil:
    _leave_list(result)


cdef void result_retain(Result* result) noexcept nogil:
    fp_add_i32(&result.refs, 1)


cdef void result_release(Result* result) noexcept nogil:
    cdef uint32_t i
    cdef int j
    if result == NULL or fp_add_i32(&result.refs, -1) > 0:
        return
    for i in range(result.child_count):
        result_release(result.children[i])
    for j in range(result.record_error_count):
        free(result.record_errors[j].message)
    free(result.record_errors)
    free(result.children)
    free(result.child_first)
    free(result.removed.items)
    free(result.message)
    free(result.futures)
    free(result)


cdef void _leave_list(Result* result) noexcept nogil:
    cdef Incomplete* list = result.incomplete
    if list == NULL:
        return
    fp_mutex_lock(&list.lock)
    if result.older != NULL:
        result.older.newer = result.newer
    else:
        list.oldest = result.newer
    if result.newer != NULL:
        result.newer.older = result.older
    else:
        list.newest = result.older
    result.older = result.newer = NULL
    fp_store_ptr(<void**>&result.incomplete, NULL)
    list.batch_count -= 1
    fp_cond_broadcast(&list.changed)
    if list.flushes != NULL:
        _end_flushes(list)
    fp_mutex_unlock(&list.lock)


cdef inline bint _is_flushed(Incomplete* list, uint64_t number) noexcept nogil:
    return list.oldest == NULL or list.oldest.number > number


cdef void _end_flushes(Incomplete* list) noexcept nogil:
    cdef LoopItem** at = &list.flushes
    cdef LoopItem* item
    while at[0] != NULL:
        item = at[0]
        if _is_flushed(list, item.number):
            at[0] = item.next
            loop_queue_push(item)
        else:
            at = &item.next


cdef inline void _unlock_and_wake(Stripe* stripe, Result* result) noexcept nogil:
    """The waiters need the lock to go on: free it first, or they wake up twice."""
    cdef bint wake = fp_load_i32(&result.waiters) > 0
    cdef LoopItem* item
    cdef LoopItem* awaited = result.awaited
    result.awaited = NULL
    fp_mutex_unlock(&stripe.lock)
    if wake:
        fp_cond_broadcast(&stripe.done)
    while awaited != NULL:
        item = awaited
        awaited = item.next
        loop_queue_push(item)


cdef bint result_complete(Result* result) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef Incomplete* list = result.incomplete
    cdef bint wake = False
    fp_mutex_lock(&stripe.lock)
    if result.state != RESULT_PENDING:
        fp_mutex_unlock(&stripe.lock)
        return False
    if result.future_count == 0:
        fp_store_i32(&result.state, RESULT_DONE)
        _unlock_and_wake(stripe, result)
        _leave_list(result)
        return True
    fp_store_i32(&result.state, RESULT_DELIVERING)
    fp_mutex_unlock(&stripe.lock)
    if list.pool != NULL:
        pool_hold(list.pool, result.held_bytes)
    result_retain(result)
    result.next_ready = NULL
    fp_mutex_lock(&list.lock)
    if list.ready_tail == NULL:
        list.ready_head = result
        wake = True
    else:
        list.ready_tail.next_ready = result
    list.ready_tail = result
    fp_store_i32(&list.has_ready, 1)
    if wake:
        fp_cond_broadcast(&list.ready)
        _signal_ready(list)
    fp_mutex_unlock(&list.lock)
    return True


cdef void _signal_ready(Incomplete* list) noexcept nogil:
    cdef uint64_t one = 1
    if list.ready_fd >= 0:
        write(list.ready_fd, &one, sizeof(one))


cdef void result_delivered(Result* result) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    if result.incomplete.pool != NULL:
        pool_let_go(result.incomplete.pool, result.held_bytes)
    fp_mutex_lock(&stripe.lock)
    fp_store_i32(&result.state, RESULT_DONE)
    _unlock_and_wake(stripe, result)
    _leave_list(result)


cdef bint result_attach(Result* result, void* future, uint32_t index) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef AttachedFuture* grown
    cdef uint32_t capacity
    cdef bint taken = False
    fp_mutex_lock(&stripe.lock)
    if result.state == RESULT_PENDING:
        if result.future_count == result.future_capacity:
            capacity = max(<uint32_t>8, result.future_capacity * 2)
            grown = <AttachedFuture*>realloc(
                result.futures, capacity * sizeof(AttachedFuture))
            if grown != NULL:
                result.futures = grown
                result.future_capacity = capacity
        if result.future_count < result.future_capacity:
            result.futures[result.future_count].future = future
            result.futures[result.future_count].index = index
            result.futures[result.future_count].order = result.future_count
            result.future_count += 1
            taken = True
    fp_mutex_unlock(&stripe.lock)
    return taken


cdef AttachedFuture* result_attached(Result* result, uint32_t* count) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef AttachedFuture* copy = NULL
    fp_mutex_lock(&stripe.lock)
    count[0] = result.future_count
    if count[0] > 0:
        copy = <AttachedFuture*>malloc(count[0] * sizeof(AttachedFuture))
        if copy != NULL:
            memcpy(copy, result.futures, count[0] * sizeof(AttachedFuture))
    fp_mutex_unlock(&stripe.lock)
    return copy


cdef LoopItem* _awaited_in(Result* result, LoopQueue* queue) noexcept nogil:
    cdef LoopItem* item = result.awaited
    while item != NULL and item.queue != queue:
        item = item.next
    return item


cdef int64_t result_await(Result* result, LoopQueue* queue, void* awaiter) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef LoopItem* item
    cdef int64_t place = NO_PLACE
    fp_mutex_lock(&stripe.lock)
    if result.state < RESULT_DONE:
        place = NO_ROOM
        item = _awaited_in(result, queue)
        if item == NULL:
            item = loop_item_new(queue)
            if item != NULL:
                item.next = result.awaited
                result.awaited = item
        if item != NULL:
            place = loop_item_add(item, awaiter)
            if place < 0:
                place = NO_ROOM
    fp_mutex_unlock(&stripe.lock)
    return place


cdef bint result_unawait(
    Result* result, LoopQueue* queue, uint32_t place, void* awaiter
) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef LoopItem* item
    cdef bint was_there
    fp_mutex_lock(&stripe.lock)
    item = _awaited_in(result, queue)
    was_there = item != NULL and loop_item_remove(item, place, awaiter)
    fp_mutex_unlock(&stripe.lock)
    return was_there


cdef void result_split(Result* result) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef AttachedFuture* moved
    cdef uint32_t moved_count, i, index
    cdef Result* child
    fp_mutex_lock(&stripe.lock)
    moved = result.futures
    moved_count = result.future_count
    result.futures = NULL
    result.future_count = 0
    result.future_capacity = 0
    result.error_code = ERR_SPLIT
    fp_store_i32(&result.state, RESULT_SPLIT)
    _unlock_and_wake(stripe, result)
    for i in range(moved_count):
        index = moved[i].index
        child = result_resolve(result, &index)
        result_attach(child, moved[i].future, index)
    free(moved)
    _leave_list(result)


cdef FpStatus result_wait(Result* result, int64_t deadline_ns) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef FpStatus status = FP_OK
    cdef int32_t parted = fp_load_i32(&result.parted)
    if fp_load_i32_acq(&result.state) >= RESULT_DONE:
        return FP_OK
    fp_mutex_lock(&stripe.lock)
    fp_add_i32(&result.waiters, 1)
    while fp_load_i32(&result.state) < RESULT_DONE and result.parted == parted:
        if fp_cond_wait_until(&stripe.done, &stripe.lock, deadline_ns):
            if fp_load_i32(&result.state) < RESULT_DONE:
                status = FP_TIMEDOUT
            break
    fp_add_i32(&result.waiters, -1)
    fp_mutex_unlock(&stripe.lock)
    return status


cdef void result_urge(Result* result) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    if fp_load_i32(&result.sent) or fp_load_i32(&result.urgent):
        return
    fp_mutex_lock(&stripe.lock)     # while it is pending under the stripe, the engine lives
    if result.state == RESULT_PENDING and result.incomplete != NULL:
        fp_store_i32(&result.urgent, 1)
        if result.incomplete.urge != NULL:
            result.incomplete.urge(result.incomplete.argument, result.origin)
    fp_mutex_unlock(&stripe.lock)


cdef void result_drive(Result* result, int64_t deadline_ns) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    cdef Incomplete* list = NULL
    if fp_load_i32_acq(&result.state) != RESULT_PENDING:
        return
    fp_mutex_lock(&stripe.lock)     # while it is pending under the stripe, the engine lives
    if result.state == RESULT_PENDING and result.incomplete != NULL and result.origin != NULL:
        list = result.incomplete
        if list.drive != NULL:
            fp_add_i32(&list.drivers, 1)    # and from here on, too
    fp_mutex_unlock(&stripe.lock)
    if list != NULL and list.drive != NULL:
        list.drive(list.drive_argument, result, deadline_ns)
        fp_add_i32(&list.drivers, -1)


cdef Result* incomplete_take_ready(Incomplete* list, int64_t deadline_ns) noexcept nogil:
    cdef Result* head
    fp_mutex_lock(&list.lock)
    while list.ready_head == NULL and not list.closed:
        if fp_cond_wait_until(&list.ready, &list.lock, deadline_ns):
            break
    head = list.ready_head
    list.ready_head = NULL
    list.ready_tail = NULL
    fp_store_i32(&list.has_ready, 0)
    fp_mutex_unlock(&list.lock)
    return head


cdef bint incomplete_is_flushed(Incomplete* list, uint64_t number) noexcept nogil:
    cdef bint is_flushed
    fp_mutex_lock(&list.lock)
    is_flushed = _is_flushed(list, number)
    fp_mutex_unlock(&list.lock)
    return is_flushed


cdef FpStatus incomplete_wait(
    Incomplete* list, uint64_t number, int64_t deadline_ns
) noexcept nogil:
    cdef FpStatus status = FP_OK
    fp_mutex_lock(&list.lock)
    while not _is_flushed(list, number):
        if fp_cond_wait_until(&list.changed, &list.lock, deadline_ns):
            if not _is_flushed(list, number):
                status = FP_TIMEDOUT
            break
    fp_mutex_unlock(&list.lock)
    return status


cdef bint incomplete_await(Incomplete* list, uint64_t number, LoopItem* item) noexcept nogil:
    cdef bint is_to_come
    fp_mutex_lock(&list.lock)
    is_to_come = not _is_flushed(list, number)
    if is_to_come:
        item.number = number
        item.next = list.flushes
        list.flushes = item
    fp_mutex_unlock(&list.lock)
    return is_to_come


cdef bint incomplete_unawait(Incomplete* list, LoopItem* item) noexcept nogil:
    cdef LoopItem** at
    cdef bint was_there
    fp_mutex_lock(&list.lock)
    at = &list.flushes
    while at[0] != NULL and at[0] != item:
        at = &at[0].next
    was_there = at[0] == item
    if was_there:
        at[0] = item.next
    fp_mutex_unlock(&list.lock)
    return was_there


cdef uint64_t incomplete_last_number(Incomplete* list) noexcept nogil:
    cdef uint64_t number
    fp_mutex_lock(&list.lock)
    number = list.next_number - 1
    fp_mutex_unlock(&list.lock)
    return number


cdef int64_t incomplete_record_count(Incomplete* list, uint64_t up_to_number) noexcept nogil:
    cdef int64_t records = 0
    cdef Result* result
    fp_mutex_lock(&list.lock)
    result = list.oldest
    while result != NULL and result.number <= up_to_number:
        if fp_load_i32_acq(&result.state) == RESULT_PENDING:
            records += result_live_count(result)
        result = result.newer
    fp_mutex_unlock(&list.lock)
    return records


cdef Result* result_resolve(Result* result, uint32_t* index) noexcept nogil:
    cdef uint32_t low, high, middle
    cdef int32_t state = fp_load_i32_acq(&result.state)
    while state == RESULT_SPLIT:
        index[0] = result_place(result, index[0])
        low = 0
        high = result.child_count
        while high - low > 1:
            middle = (low + high) // 2
            if result.child_first[middle] <= index[0]:
                low = middle
            else:
                high = middle
        index[0] -= result.child_first[low]
        result = result.children[low]
        state = fp_load_i32_acq(&result.state)
    if state != RESULT_PENDING:
        index[0] = result_place(result, index[0])
    return result


# Records that were taken back.

cdef bint result_take_all_back(
    Result* result, const uint32_t* indexes, uint32_t count
) noexcept nogil:
    cdef Incomplete* list = result.incomplete
    if (not result_is_queued(result) or list == NULL or list.take_back == NULL
            or not list.take_back(list.argument, result, indexes, count)):
        return False
    result_part(result)
    return True


cdef void result_part(Result* result) noexcept nogil:
    cdef Stripe* stripe = _stripe_of(result)
    fp_mutex_lock(&stripe.lock)
    fp_add_i32(&result.parted, 1)
    _unlock_and_wake(stripe, result)


cdef Incomplete* result_miss(Result** result, uint32_t index) noexcept nogil:
    # 1. It is pending. 2. The I/O thread completes it, the last of a transaction, and looks at
    # `has_missed`. 3. We set that: too late. So 1 and 3 are one step, by a lock that 2 needs.
    cdef Stripe* stripe
    cdef Incomplete* list = NULL
    while True:
        result[0] = result_resolve(result[0], &index)
        stripe = _stripe_of(result[0])
        fp_mutex_lock(&stripe.lock)
        if result[0].state == RESULT_PENDING:
            list = result[0].incomplete
            if list != NULL:
                fp_store_i32(&list.has_missed, 1)
        fp_mutex_unlock(&stripe.lock)
        if list != NULL or fp_load_i32_acq(&result[0].state) != RESULT_SPLIT:
            return list


cdef Result* result_new_apart(Result* result, int32_t code, Incomplete* list) noexcept nogil:
    cdef Result** children = <Result**>malloc(sizeof(Result*))
    cdef Result* apart = NULL
    if children != NULL and list != NULL:
        apart = result_new(list, result.partition, NULL)
    elif children != NULL:
        apart = _result_blank(result.partition)
    if apart == NULL:
        free(children)
        return NULL
    apart.children = children
    apart.children[0] = result      # not split: nobody looks there
    apart.child_count = 1
    apart.count = 1
    apart.error_code = code
    if list == NULL:
        apart.state = RESULT_DONE
    return apart


cdef int compare_futures(const void* left, const void* right) noexcept nogil:
    cdef const AttachedFuture* a = <const AttachedFuture*>left
    cdef const AttachedFuture* b = <const AttachedFuture*>right
    if a.index != b.index:
        return -1 if a.index < b.index else 1
    return -1 if a.order < b.order else a.order > b.order


cdef void sort_futures(
    AttachedFuture* futures, uint32_t count, Comparison compare
) noexcept nogil:
    # Those that `send` attaches are in order but for rare races, others are in any.
    cdef uint32_t i
    for i in range(1, count):
        if compare(&futures[i - 1], &futures[i]) > 0:
            qsort(futures, count, sizeof(AttachedFuture), compare)
            return
