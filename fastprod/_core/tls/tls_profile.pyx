"""Keeps an SSL_CTX for as long as somebody holds it."""
from libc.stdlib cimport calloc, free

from fastprod._core.io.layer cimport ChannelLayer
from fastprod._core.tls.openssl cimport openssl


cdef void _destroy(ChannelLayer* layer) noexcept nogil:
    openssl.SSL_CTX_free((<TlsProfile*>layer).ctx)
    free(layer)


cdef TlsProfile* tls_profile_new(void* ctx, bint is_server, bint checks_host_name) noexcept nogil:
    cdef TlsProfile* profile = <TlsProfile*>calloc(1, sizeof(TlsProfile))
    if profile == NULL:
        return NULL
    profile.layer.holders = 1
    profile.layer.destroy_layer = _destroy
    profile.ctx = ctx
    profile.is_server = is_server
    profile.checks_host_name = checks_host_name
    return profile
