"""TlsContext: what connections by TLS have in common, made under the GIL from bytes."""
from fastprod._core.io.layer cimport Layer


cdef class TlsContext(Layer):
    # Its layer is that of a TlsProfile.
    cdef readonly bint server_side
