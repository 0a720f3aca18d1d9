"""What Kafka's error codes mean to the I/O thread: bits, filled once from the error table."""
from libc.stdint cimport int32_t

cdef bint code_is_retriable(int32_t code) noexcept nogil
cdef bint code_refreshes_metadata(int32_t code) noexcept nogil
# Ends an idempotent producer for good (P-F.4 table).
cdef bint code_is_fatal(int32_t code) noexcept nogil
