"""A transport that keeps bytes back, as TLS does: for tests of what stands above transports."""
from fastprod._core.io.channel cimport Transport

# The one table. Constant; any thread. Descriptors up to 4,095.
cdef const Transport* record_transport() noexcept nogil
