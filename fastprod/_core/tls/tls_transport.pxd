"""TLS over TCP: the transport of a channel whose `session` is a TlsSession."""
from fastprod._core.io.channel cimport Transport
from fastprod._core.tls.tls_profile cimport TlsProfile

# The one table. Constant; any thread.
cdef const Transport* tls_transport() noexcept nogil

# Complete a profile's layer: how connections by it are made.
cdef void tls_layer_set_up(TlsProfile* profile) noexcept nogil
