"""A transaction that begins right behind another one: held until that one has ended (P-I.7.8)."""
from fastprod._core.engine.control_queue cimport Event
from fastprod._core.engine.sender_state cimport IoThread, RequestHandler

# `question`: a DO_BEGIN_TRANSACTION that has one, which is taken; NULL: nothing is waited for.
cdef void transaction_hold(IoThread* io, Event* question) noexcept nogil
# Once a turn: send the question, if it is time for it.
cdef void ask_if_ended(IoThread* io) noexcept nogil
# What becomes of the question.
cdef RequestHandler question_handler() noexcept nogil
