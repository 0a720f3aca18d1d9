"""Makes an SSL_CTX from certificates, keys and limits (see the .pyi)."""

from libc.string cimport memcpy
cimport cython

from fastprod._core.tls.openssl cimport (
    FP_TLS_CRL_CHECK, FP_TLS_CTRL_CHAIN_CERT, FP_TLS_CTRL_MODE, FP_TLS_CTRL_SET_MAX_PROTO_VERSION,
    FP_TLS_CTRL_SET_MIN_PROTO_VERSION, FP_TLS_CTRL_SET_READ_AHEAD, FP_TLS_CTRL_SET_SESS_CACHE_MODE,
    FP_TLS_MODE_MOVING_WRITE_BUFFER, FP_TLS_MODE_RELEASE_BUFFERS,
    FP_TLS_OP_CIPHER_SERVER_PREFERENCE, FP_TLS_OP_NO_COMPRESSION, FP_TLS_OP_NO_RENEGOTIATION,
    FP_TLS_PARTIAL_CHAIN, FP_TLS_SESS_CACHE_CLIENT_ONLY_CALLBACK, FP_TLS_STRICT,
    FP_TLS_VERIFY_PEER, FP_TLS_VERIFY_REQUIRED, FP_TLS_VERSION_1_2, FP_TLS_VERSION_1_3, openssl,
    openssl_error, openssl_load,
)
from fastprod._core.tls.tls_profile cimport TlsProfile, tls_profile_new
from fastprod._core.tls.tls_session cimport tls_new_ticket, tls_session_prepare, tls_verify
from fastprod._core.tls.tls_transport cimport tls_layer_set_up

cdef enum:
    # What one recv() may bring.
    READ_BYTES = 64 * 1024

cdef bytes _SESSION_CONTEXT = b"fastprod"
cdef dict _VERSIONS = {"TLSv1.2": FP_TLS_VERSION_1_2, "TLSv1.3": FP_TLS_VERSION_1_3}
TLS_VERSIONS = tuple(_VERSIONS)
_CLIENT_AUTH = {
    "none": 0,
    "requested": FP_TLS_VERIFY_PEER,
    "required": FP_TLS_VERIFY_PEER | FP_TLS_VERIFY_REQUIRED,
}


class TlsContextError(ValueError):
    """See the .pyi."""

    def __init__(self, part, text):
        super().__init__(text)
        self.part = part


cdef struct Password:
    # BORROWS `text` from a bytes of who asks.
    const char* text        # or NULL
    Py_ssize_t size
    bint was_wanted


cdef int _tell_password(char* buffer, int size, int writing, void* cookie) noexcept nogil:
    cdef Password* password = <Password*>cookie
    password.was_wanted = True
    if password.text == NULL or password.size > size:
        return -1
    memcpy(buffer, password.text, <size_t>password.size)
    return <int>password.size


cdef void* _memory_bio(bytes data) except NULL:
    """Borrows `data`."""
    cdef void* bio = openssl.BIO_new_mem_buf(<const char*>data, <int>len(data))
    if bio == NULL:
        raise MemoryError("no memory for a certificate")
    return bio


@cython.final
cdef class TlsContext(Layer):
    """See the .pyi."""

    def __cinit__(
        self, *, bytes ca=None, bytes certificate=None,
        bytes private_key=None, bytes key_password=None, bytes pkcs12=None, bytes crl=None,
        bint verify=True, bint check_host_name=True, str min_version="TLSv1.2",
        str max_version="TLSv1.3", str ciphers=None, str cipher_suites=None,
        bint server_side=False, str client_auth="none", bint strict=False,
        bint partial_chain=True,
    ):
        cdef void* ctx
        cdef TlsProfile* profile
        openssl_load()
        tls_session_prepare()
        openssl.ERR_clear_error()
        self.server_side = server_side
        ctx = openssl.SSL_CTX_new(
            openssl.TLS_server_method() if server_side else openssl.TLS_client_method())
        if ctx == NULL:
            raise MemoryError(f"OpenSSL makes no context: {openssl_error()}")
        profile = tls_profile_new(ctx, server_side, verify and check_host_name)
        if profile == NULL:
            openssl.SSL_CTX_free(ctx)
            raise MemoryError("no memory for a TLS context")
        tls_layer_set_up(profile)
        self.layer = &profile.layer
        _set_modes(ctx, server_side)
        _set_versions(ctx, min_version, max_version)
        _set_ciphers(ctx, ciphers, cipher_suites)
        if pkcs12 is not None:
            _use_pkcs12(ctx, pkcs12, key_password)
        elif certificate is not None:
            _use_certificates(ctx, certificate)
            _use_key(ctx, certificate if private_key is None else private_key, key_password)
        elif private_key is not None:
            raise TlsContextError("certificate", "there is a private key, but no certificate")
        elif server_side:
            raise TlsContextError("certificate", "a server needs a certificate")
        if server_side:
            _verify_clients(ctx, client_auth, ca)
        elif verify:
            _trust(ctx, ca, strict, partial_chain)
            openssl.SSL_CTX_set_verify(ctx, FP_TLS_VERIFY_PEER, tls_verify)
        if crl is not None:
            _add_revocations(ctx, crl)
        openssl.ERR_clear_error()

    def __init__(self, **_):
        pass


cdef void _set_modes(void* ctx, bint server_side):
    cdef unsigned long options = FP_TLS_OP_NO_COMPRESSION | FP_TLS_OP_NO_RENEGOTIATION
    if server_side:
        options |= FP_TLS_OP_CIPHER_SERVER_PREFERENCE
    openssl.SSL_CTX_set_options(ctx, options)
    openssl.SSL_CTX_ctrl(
        ctx, FP_TLS_CTRL_MODE, FP_TLS_MODE_MOVING_WRITE_BUFFER | FP_TLS_MODE_RELEASE_BUFFERS, NULL)
    openssl.SSL_CTX_ctrl(ctx, FP_TLS_CTRL_SET_READ_AHEAD, 1, NULL)
    openssl.SSL_CTX_set_default_read_buffer_len(ctx, READ_BYTES)
    if server_side:
        # Tickets alone, which cost a server nothing; one is enough for who connects once more.
        openssl.SSL_CTX_ctrl(ctx, FP_TLS_CTRL_SET_SESS_CACHE_MODE, 0, NULL)
        openssl.SSL_CTX_set_num_tickets(ctx, 1)
        openssl.SSL_CTX_set_session_id_context(
            ctx, <const unsigned char*>_SESSION_CONTEXT, <unsigned int>len(_SESSION_CONTEXT))
    else:
        openssl.SSL_CTX_ctrl(
            ctx, FP_TLS_CTRL_SET_SESS_CACHE_MODE, FP_TLS_SESS_CACHE_CLIENT_ONLY_CALLBACK, NULL)
        openssl.SSL_CTX_sess_set_new_cb(ctx, tls_new_ticket)


cdef int _set_versions(void* ctx, str oldest, str newest) except -1:
    for part, name in (("min_version", oldest), ("max_version", newest)):
        if name not in _VERSIONS:
            raise TlsContextError(
                part, f"{name!r} is no version of TLS that can be used: {', '.join(_VERSIONS)}")
    if _VERSIONS[oldest] > _VERSIONS[newest]:
        raise TlsContextError("min_version", f"{oldest} is newer than the newest, {newest}")
    if openssl.SSL_CTX_ctrl(
        ctx, FP_TLS_CTRL_SET_MIN_PROTO_VERSION, _VERSIONS[oldest], NULL
    ) != 1 or openssl.SSL_CTX_ctrl(
        ctx, FP_TLS_CTRL_SET_MAX_PROTO_VERSION, _VERSIONS[newest], NULL
    ) != 1:
        raise TlsContextError(
            "max_version", f"OpenSSL does not take {oldest} to {newest}: {openssl_error()}")
    return 0


cdef int _set_ciphers(void* ctx, str ciphers, str cipher_suites) except -1:
    if ciphers is not None and openssl.SSL_CTX_set_cipher_list(
        ctx, ciphers.encode("ascii", "replace")
    ) != 1:
        raise TlsContextError(
            "ciphers", f"OpenSSL knows no cipher in {ciphers!r}: {openssl_error()}")
    if cipher_suites is not None and openssl.SSL_CTX_set_ciphersuites(
        ctx, cipher_suites.encode("ascii", "replace")
    ) != 1:
        raise TlsContextError(
            "cipher_suites",
            f"OpenSSL knows not every cipher suite of TLS 1.3 in {cipher_suites!r}: "
            f"{openssl_error()}")
    return 0


# Certificates: every function takes all there are in a PEM text.

cdef enum Use:
    AS_OURS = 1         # the first is our own, the others lead to its root
    AS_TRUSTED = 2
    AS_CLIENTS_ISSUER = 3


cdef bint _use(void* ctx, void* certificate, Use use, int number) noexcept:
    """Whether OpenSSL took it."""
    if use == AS_OURS and number == 0:
        return openssl.SSL_CTX_use_certificate(ctx, certificate) == 1
    if use == AS_OURS:
        # It takes the reference.
        return openssl.X509_up_ref(certificate) == 1 and openssl.SSL_CTX_ctrl(
            ctx, FP_TLS_CTRL_CHAIN_CERT, 0, certificate) == 1
    if use == AS_CLIENTS_ISSUER and openssl.SSL_CTX_add_client_CA(ctx, certificate) != 1:
        return False
    return openssl.X509_STORE_add_cert(openssl.SSL_CTX_get_cert_store(ctx), certificate) == 1


cdef int _read_certificates(void* ctx, bytes pem, Use use, str part) except -1:
    cdef void* bio = _memory_bio(pem)
    cdef void* certificate
    cdef int count = 0
    cdef bint is_taken = True
    while is_taken:
        certificate = openssl.PEM_read_bio_X509(bio, NULL, NULL, NULL)
        if certificate == NULL:
            break
        is_taken = _use(ctx, certificate, use, count)
        openssl.X509_free(certificate)
        count += 1
    openssl.BIO_free(bio)
    said = openssl_error()
    if not is_taken:
        raise TlsContextError(part, f"OpenSSL refuses certificate {count} of the PEM: {said}")
    if "no start line" not in said:
        raise TlsContextError(part, f"certificate {count + 1} of the PEM does not parse: {said}")
    if count == 0:
        raise TlsContextError(
            part, f"there is no certificate in its {len(pem):,} bytes: one begins with the line "
            f"-----BEGIN CERTIFICATE-----{_looks_like(pem)}")
    return count


cdef str _looks_like(bytes data):
    """What somebody took for PEM, as far as that can be told."""
    if data.startswith(b"\xfe\xed\xfe\xed"):
        return " (this is a Java key store, JKS)"
    if data.startswith(b"0\x82"):
        return " (this is binary: DER or PKCS12)"
    return ""


cdef int _use_certificates(void* ctx, bytes pem) except -1:
    _read_certificates(ctx, pem, AS_OURS, "certificate")
    return 0


cdef int _trust(void* ctx, bytes pem, bint strict, bint partial_chain) except -1:
    cdef void* store = openssl.SSL_CTX_get_cert_store(ctx)
    if strict:
        openssl.X509_STORE_set_flags(store, FP_TLS_STRICT)
    if pem is None:
        if openssl.SSL_CTX_set_default_verify_paths(ctx) != 1:
            raise TlsContextError(
                "ca", f"the system's certificates cannot be read: {openssl_error()}")
        return 0
    _read_certificates(ctx, pem, AS_TRUSTED, "ca")
    if partial_chain:
        openssl.X509_STORE_set_flags(store, FP_TLS_PARTIAL_CHAIN)
    return 0


cdef int _verify_clients(void* ctx, str how, bytes ca) except -1:
    if how not in _CLIENT_AUTH:
        raise TlsContextError(
            "client_auth", f"{how!r} is none of {', '.join(_CLIENT_AUTH)}")
    if _CLIENT_AUTH[how] == 0:
        return 0
    if ca is None:
        raise TlsContextError("ca", "there is nobody whose certificates clients could have")
    _read_certificates(ctx, ca, AS_CLIENTS_ISSUER, "ca")
    openssl.X509_STORE_set_flags(openssl.SSL_CTX_get_cert_store(ctx), FP_TLS_PARTIAL_CHAIN)
    openssl.SSL_CTX_set_verify(ctx, _CLIENT_AUTH[how], tls_verify)
    return 0


cdef int _add_revocations(void* ctx, bytes pem) except -1:
    cdef void* store = openssl.SSL_CTX_get_cert_store(ctx)
    cdef void* bio = _memory_bio(pem)
    cdef void* crl
    cdef int count = 0
    cdef bint is_taken = True
    while is_taken:
        crl = openssl.PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)
        if crl == NULL:
            break
        is_taken = openssl.X509_STORE_add_crl(store, crl) == 1
        openssl.X509_CRL_free(crl)
        count += 1
    openssl.BIO_free(bio)
    said = openssl_error()
    if not is_taken or count == 0 or "no start line" not in said:
        raise TlsContextError(
            "crl", f"revocation list {count + (not is_taken) or 1} of the PEM does not parse "
            f"(it begins with the line -----BEGIN X509 CRL-----): {said}")
    openssl.X509_STORE_set_flags(store, FP_TLS_CRL_CHECK)
    return 0


# Our key.

cdef int _use_key(void* ctx, bytes pem, bytes key_password) except -1:
    cdef Password password
    cdef void* bio = _memory_bio(pem)
    cdef void* key
    password.text = <const char*>key_password if key_password is not None else NULL
    password.size = len(key_password) if key_password is not None else 0
    password.was_wanted = False
    key = openssl.PEM_read_bio_PrivateKey(bio, NULL, _tell_password, &password)
    openssl.BIO_free(bio)
    if key != NULL:
        return _take_key(ctx, key, "private_key")
    said = openssl_error()
    if password.was_wanted and key_password is None:
        raise TlsContextError("key_password", "the private key is encrypted: it needs a password")
    if password.was_wanted:
        raise TlsContextError(
            "key_password", f"the private key does not open with this password: {said}")
    if "no start line" in said or "unsupported" in said:
        raise TlsContextError(
            "private_key", f"there is no private key in its {len(pem):,} bytes: one begins with a "
            f"line like -----BEGIN PRIVATE KEY-----{_looks_like(pem)}")
    raise TlsContextError("private_key", f"the private key does not parse: {said}")


cdef int _take_key(void* ctx, void* key, str part) except -1:
    """Frees `key`."""
    cdef bint is_taken = openssl.SSL_CTX_use_PrivateKey(ctx, key) == 1
    openssl.EVP_PKEY_free(key)
    if not is_taken or openssl.SSL_CTX_check_private_key(ctx) != 1:
        raise TlsContextError(
            part, f"the private key does not belong to the certificate: {openssl_error()}")
    return 0


cdef int _use_pkcs12(void* ctx, bytes data, bytes key_password) except -1:
    cdef void* bio = _memory_bio(data)
    cdef void* store = openssl.d2i_PKCS12_bio(bio, NULL)
    cdef void* key = NULL
    cdef void* taken
    cdef void* certificate = NULL
    cdef void* others = NULL
    cdef const char* password = <const char*>key_password if key_password is not None else NULL
    cdef bint is_open
    openssl.BIO_free(bio)
    if store == NULL:
        raise TlsContextError("pkcs12", f"it is no PKCS12: {openssl_error()}{_looks_like(data)}")
    is_open = openssl.PKCS12_parse(store, password, &key, &certificate, &others) == 1
    openssl.PKCS12_free(store)
    if not is_open:
        raise TlsContextError(
            "key_password", f"the PKCS12 does not open with this password: {openssl_error()}")
    try:
        if key == NULL or certificate == NULL:
            raise TlsContextError("pkcs12", "it holds no private key with its certificate")
        if not _use(ctx, certificate, AS_OURS, 0) or not _use_chain(ctx, others):
            raise TlsContextError("pkcs12", f"OpenSSL refuses a certificate: {openssl_error()}")
        taken, key = key, NULL
        _take_key(ctx, taken, "pkcs12")
    finally:
        openssl.X509_free(certificate)
        openssl.EVP_PKEY_free(key)
        _free_stack(others)
    return 0


cdef bint _use_chain(void* ctx, void* others):
    cdef int i
    if others != NULL:
        for i in range(openssl.OPENSSL_sk_num(others)):
            if not _use(ctx, openssl.OPENSSL_sk_value(others, i), AS_OURS, i + 1):
                return False
    return True


cdef void _free_stack(void* certificates):
    cdef int i
    if certificates != NULL:
        for i in range(openssl.OPENSSL_sk_num(certificates)):
            openssl.X509_free(openssl.OPENSSL_sk_value(certificates, i))
        openssl.OPENSSL_sk_free(certificates)
