"""What a failure has to say of the peer's certificate, in lines of key=value."""

# Write subject, issuer, names, not_before and not_after of an X509 to `out`, NUL at the end; what
# does not fit is left out. Printable ASCII only, whatever the peer put there.
cdef void describe_certificate(void* certificate, char* out, size_t room) noexcept nogil
