"""The socket of one node, lent to a caller: docs/design/engine.md, "Who drives".

It is in one of three states. All changes are made under IoThread.loop_lock.

  watched: the poller watches it (`node` is NULL).
  left:    nobody watches it. A caller sends at it, and will wait; or it has just been there, and
           may come again. The guard ends this: it wakes the I/O thread, and the poller watches.
  driven:  a caller sleeps at it (`result` is what it waits for). What else completes that result,
           or ends the connection, calls the caller.
"""
from libc.stdint cimport int64_t

from fastprod._core.delivery.result cimport Result
from fastprod._core.engine.sender_state cimport IoThread, Node

cdef void lent_init(IoThread* io) noexcept nogil
# Close its descriptors; nobody uses it any more.
cdef void lent_close(IoThread* io) noexcept nogil

# May it be lent now, or is it already? No, if somebody drives, or if there is more to do at the
# node's connection than to read.
cdef bint lent_can_be(IoThread* io, Node* node) noexcept nogil
# Watched to left, with its guard set. False: it is watched.
cdef bint lent_leave(IoThread* io, Node* node) noexcept nogil
# Watched or left to driven. False: as it was.
cdef bint lent_drive(IoThread* io, Node* node, Result* result) noexcept nogil
# Driven to left if nothing is under way and the guard is still to come, else to watched.
cdef void lent_return(IoThread* io) noexcept nogil
# Left to watched.
cdef void lent_watch(IoThread* io) noexcept nogil
# Is the connection still the one whose socket was lent?
cdef bint lent_is_there(IoThread* io) noexcept nogil
# The I/O thread's part, before it sleeps: left to watched; or call the caller that drives, if it
# has nothing to wait for there.
cdef void lent_attend(IoThread* io) noexcept nogil
# The caller is awake: it needs no other call.
cdef void lent_heard(IoThread* io) noexcept nogil
