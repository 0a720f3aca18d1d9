"""Finds OpenSSL's functions: in the library of Python's own _ssl extension, or in the system's.

The extension's file is mapped, not imported: what it is linked with comes along. So TLS is as old
or new as Python's, and is updated with it.
"""
import os
from importlib.util import find_spec

cdef extern from "c/fp_tls_api.h" nogil:
    const char* fp_tls_load(fp_tls_api* api, void* handle) noexcept
    void* fp_tls_open(const char* path) noexcept
    void fp_tls_close(void* handle) noexcept

_LIBRARIES = ("libssl.so.3", "libssl.so.1.1", "libssl.3.dylib", "libssl.dylib")
_MAC_FOLDERS = ("/opt/homebrew/opt/openssl@3/lib", "/usr/local/opt/openssl@3/lib")

cdef str _found = None      # the file the functions come from


def _candidates():
    """The files to look in, in this order; the empty path is the program itself."""
    spec = find_spec("_ssl")
    if spec is not None and spec.has_location:
        yield spec.origin
    yield ""
    for name in _LIBRARIES:
        yield name
        if name.endswith(".dylib"):
            yield from (os.path.join(folder, name) for folder in _MAC_FOLDERS)


cdef int openssl_load() except -1:
    global _found
    cdef const char* missing
    cdef void* handle
    cdef bytes raw
    if _found is not None:
        return 0
    tried = []
    for path in _candidates():
        raw = os.fsencode(path)
        handle = fp_tls_open(<const char*>raw if raw else NULL)
        where = path or "the Python executable"
        if handle == NULL:
            tried.append(f"{where}: not there")
            continue
        missing = fp_tls_load(&openssl, handle)
        if missing == NULL and openssl.OpenSSL_version_num() >= FP_TLS_OLDEST:
            _found = where
            return 0
        tried.append(f"{where}: " + ("too old" if missing == NULL else f"no {missing.decode()}"))
        fp_tls_close(handle)
    raise ImportError(
        "TLS needs OpenSSL 1.1.1 or later, which Python's _ssl extension brings: "
        + "; ".join(tried))


def describe():
    openssl_load()
    return f"{openssl.OpenSSL_version(0).decode()} in {_found}"


def default_certificates():
    openssl_load()
    return (
        os.fsdecode(openssl.X509_get_default_cert_file()),
        os.fsdecode(openssl.X509_get_default_cert_dir()))


cdef str openssl_error():
    cdef char text[256]
    cdef unsigned long code
    cdef const char* reason
    said = []
    while True:
        code = openssl.ERR_get_error()
        if code == 0:
            break
        reason = openssl.ERR_reason_error_string(code)
        if reason != NULL:
            said.append(reason.decode("ascii", "replace"))
        else:
            openssl.ERR_error_string_n(code, text, sizeof(text))
            said.append(text.decode("ascii", "replace"))
    return ", ".join(dict.fromkeys(said)) or "no reason given"
