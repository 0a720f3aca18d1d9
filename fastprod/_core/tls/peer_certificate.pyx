"""Reads names and dates off a certificate, without the interpreter."""
from libc.stdio cimport snprintf
from libc.string cimport memset, strlen
from libc.time cimport tm

from fastprod._core.tls.openssl cimport (
    FP_TLS_NAME_DNS, FP_TLS_NAME_IP, FP_TLS_NID_COMMON_NAME, FP_TLS_NID_SUBJECT_ALT_NAME, openssl,
)

cdef extern from "<arpa/inet.h>" nogil:
    const char* inet_ntop(int family, const void* address, char* text, unsigned int size)

cdef extern from "<sys/socket.h>" nogil:
    int AF_INET
    int AF_INET6

cdef enum:
    NAME_BYTES = 256
    MOST_NAMES = 20

cdef struct Text:
    char* at
    size_t room             # with the NUL's byte


cdef void _add(Text* text, const char* words, size_t size) noexcept nogil:
    cdef size_t i
    for i in range(size):
        if text.room <= 1:
            break
        text.at[0] = words[i] if 0x20 <= words[i] < 0x7F else c'?'
        text.at += 1
        text.room -= 1
    text.at[0] = 0


cdef void _say(Text* text, const char* words) noexcept nogil:
    _add(text, words, strlen(words))


cdef void _end_line(Text* text) noexcept nogil:
    if text.room > 1:
        text.at[0] = c'\n'
        text.at[1] = 0
        text.at += 1
        text.room -= 1


cdef void _add_name(Text* text, const char* key, void* name) noexcept nogil:
    cdef char line[NAME_BYTES]
    if name == NULL or openssl.X509_NAME_oneline(name, line, NAME_BYTES) == NULL:
        return
    _say(text, key)
    _say(text, line)
    _end_line(text)


cdef bint _add_alternative(Text* text, void* name, bint is_first) noexcept nogil:
    """One subjectAltName, if it is a host's; whether it was."""
    cdef int kind = 0
    cdef char line[64]
    cdef const unsigned char* data
    cdef int size
    cdef void* value = openssl.GENERAL_NAME_get0_value(name, &kind)
    if kind != FP_TLS_NAME_DNS and kind != FP_TLS_NAME_IP:
        return False
    data = openssl.ASN1_STRING_get0_data(value)
    size = openssl.ASN1_STRING_length(value)
    if kind == FP_TLS_NAME_IP:
        if size != 4 and size != 16:
            return False
        if inet_ntop(AF_INET if size == 4 else AF_INET6, data, line, 64) == NULL:
            return False
    if not is_first:
        _say(text, ", ")
    if kind == FP_TLS_NAME_IP:
        _say(text, line)
    else:
        _add(text, <const char*>data, <size_t>size)
    return True


cdef void _add_names(Text* text, void* certificate) noexcept nogil:
    cdef void* names = openssl.X509_get_ext_d2i(
        certificate, FP_TLS_NID_SUBJECT_ALT_NAME, NULL, NULL)
    cdef char line[NAME_BYTES]
    cdef int i, said = 0
    _say(text, "names=")
    if names != NULL:
        for i in range(openssl.OPENSSL_sk_num(names)):
            if said < MOST_NAMES and _add_alternative(
                text, openssl.OPENSSL_sk_value(names, i), said == 0
            ):
                said += 1
        openssl.GENERAL_NAMES_free(names)
    if said == 0 and openssl.X509_NAME_get_text_by_NID(
        openssl.X509_get_subject_name(certificate), FP_TLS_NID_COMMON_NAME, line, NAME_BYTES
    ) > 0:
        _say(text, line)
    _end_line(text)


cdef void _add_time(Text* text, const char* key, const void* moment) noexcept nogil:
    cdef tm parts
    cdef char line[64]
    memset(&parts, 0, sizeof(parts))
    if moment == NULL or openssl.ASN1_TIME_to_tm(moment, &parts) != 1:
        return
    snprintf(line, sizeof(line), "%04d-%02d-%02d %02d:%02d:%02d UTC", parts.tm_year + 1900,
             parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec)
    _say(text, key)
    _say(text, line)
    _end_line(text)


cdef void describe_certificate(void* certificate, char* out, size_t room) noexcept nogil:
    cdef Text text
    text.at = out
    text.room = room
    out[0] = 0
    _add_time(&text, "not_before=", openssl.X509_get0_notBefore(certificate))
    _add_time(&text, "not_after=", openssl.X509_get0_notAfter(certificate))
    _add_name(&text, "subject=", openssl.X509_get_subject_name(certificate))
    _add_name(&text, "issuer=", openssl.X509_get_issuer_name(certificate))
    _add_names(&text, certificate)
