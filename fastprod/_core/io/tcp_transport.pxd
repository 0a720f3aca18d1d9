"""TCP in plain text: the transport of a channel whose bytes go to the socket as they are."""
from fastprod._core.io.channel cimport Transport

# The one table. Constant; any thread.
cdef const Transport* tcp_transport() noexcept nogil
