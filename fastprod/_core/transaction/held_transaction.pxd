"""A transaction that begins right behind another one: held until that one has ended (P-I.7.8)."""
from libc.stdint cimport int64_t, uint8_t

from fastprod._core.engine.control_queue cimport Event
from fastprod._core.engine.sender_state cimport IoThread, RequestHandler

# Take a DO_ASK_BEHIND: when its request is answered, the question goes, whether or not another
# transaction has begun.
cdef void transaction_ask_behind(IoThread* io, Event* question) noexcept nogil
# The control thread's request `token` has an answer: if the end was taken, it is asked about.
cdef void transaction_answered(
    IoThread* io, int64_t token, const uint8_t* data, size_t size
) noexcept nogil
# Take a DO_BEGIN_TRANSACTION: with a question it is held, until that is answered; where the same
# was asked ahead, by that answer.
cdef void transaction_hold_next(IoThread* io, Event* event) noexcept nogil
# Once a turn: send the question, if it is time for it.
cdef void ask_if_ended(IoThread* io) noexcept nogil
# What becomes of the question.
cdef RequestHandler question_handler() noexcept nogil
