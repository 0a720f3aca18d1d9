"""Holds a ChannelLayer for Python (see the .pyi)."""
from posix.unistd cimport getpid


cdef class Layer:
    """See the .pyi."""

    def __cinit__(self, *_, **__):
        self.pid = getpid()

    cdef ChannelLayer* hold(self) except NULL:
        if self.layer == NULL:
            raise TypeError(f"{type(self).__name__} is no layer that connections can be made by")
        return layer_hold(self.layer)

    def __dealloc__(self):
        # In a fork's child another thread of the parent's may have been anywhere in it.
        if self.layer != NULL and self.pid == getpid():
            layer_release(self.layer)
