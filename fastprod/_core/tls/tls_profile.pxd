"""TlsProfile: what many connections share: an SSL_CTX, and what goes beside it."""
from fastprod._core.io.layer cimport ChannelLayer

cdef struct TlsProfile:
    # OWNER    its holders (see ChannelLayer).   FREED BY layer_release, by the last of them.
    # THREADS  any; constant.
    ChannelLayer layer          # the first field: one stands for the other
    void* ctx                   # owned; SSL_CTX
    bint is_server
    bint checks_host_name

# Takes `ctx`; NULL: no memory, and it is still the caller's. There is one holder: the caller. Of
# the layer its functions for sessions are missing (tls_transport has them).
cdef TlsProfile* tls_profile_new(void* ctx, bint is_server, bint checks_host_name) noexcept nogil
