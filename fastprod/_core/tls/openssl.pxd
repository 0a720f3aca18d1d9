"""The functions of OpenSSL, as a table found when it is first needed (c/fp_tls_api.h)."""
from libc.time cimport tm

cdef extern from "c/fp_tls_api.h" nogil:
    ctypedef int (*fp_tls_verify_cb)(int ok, void* store_context) noexcept nogil
    ctypedef int (*fp_tls_password_cb)(
        char* buffer, int size, int writing, void* cookie
    ) noexcept nogil
    ctypedef int (*fp_tls_session_cb)(void* ssl, void* session) noexcept nogil
    ctypedef int (*fp_tls_bio_write)(void* bio, const char* data, int size) noexcept nogil
    ctypedef int (*fp_tls_bio_read)(void* bio, char* data, int size) noexcept nogil
    ctypedef long (*fp_tls_bio_ctrl)(
        void* bio, int command, long number, void* pointer
    ) noexcept nogil

    ctypedef struct fp_tls_api:
        unsigned long (*OpenSSL_version_num)() noexcept nogil
        const char* (*OpenSSL_version)(int) noexcept nogil
        void (*CRYPTO_free)(void*, const char*, int) noexcept nogil
        unsigned long (*ERR_get_error)() noexcept nogil
        void (*ERR_clear_error)() noexcept nogil
        void (*ERR_error_string_n)(unsigned long, char*, size_t) noexcept nogil
        const char* (*ERR_reason_error_string)(unsigned long) noexcept nogil
        void* (*BIO_new)(const void*) noexcept nogil
        void* (*BIO_new_mem_buf)(const void*, int) noexcept nogil
        int (*BIO_free)(void*) noexcept nogil
        void* (*BIO_get_data)(void*) noexcept nogil
        void (*BIO_set_data)(void*, void*) noexcept nogil
        void (*BIO_set_init)(void*, int) noexcept nogil
        void (*BIO_set_flags)(void*, int) noexcept nogil
        void (*BIO_clear_flags)(void*, int) noexcept nogil
        void* (*BIO_meth_new)(int, const char*) noexcept nogil
        int (*BIO_meth_set_write)(void*, fp_tls_bio_write) noexcept nogil
        int (*BIO_meth_set_read)(void*, fp_tls_bio_read) noexcept nogil
        int (*BIO_meth_set_ctrl)(void*, fp_tls_bio_ctrl) noexcept nogil
        const void* (*TLS_client_method)() noexcept nogil
        const void* (*TLS_server_method)() noexcept nogil
        void* (*SSL_CTX_new)(const void*) noexcept nogil
        void (*SSL_CTX_free)(void*) noexcept nogil
        long (*SSL_CTX_ctrl)(void*, int, long, void*) noexcept nogil
        unsigned long (*SSL_CTX_set_options)(void*, unsigned long) noexcept nogil
        int (*SSL_CTX_set_cipher_list)(void*, const char*) noexcept nogil
        int (*SSL_CTX_set_ciphersuites)(void*, const char*) noexcept nogil
        int (*SSL_CTX_set_default_verify_paths)(void*) noexcept nogil
        void* (*SSL_CTX_get_cert_store)(const void*) noexcept nogil
        int (*SSL_CTX_add_client_CA)(void*, void*) noexcept nogil
        void (*SSL_CTX_set_verify)(void*, int, fp_tls_verify_cb) noexcept nogil
        int (*SSL_CTX_use_certificate)(void*, void*) noexcept nogil
        int (*SSL_CTX_use_PrivateKey)(void*, void*) noexcept nogil
        int (*SSL_CTX_check_private_key)(const void*) noexcept nogil
        int (*SSL_CTX_set_session_id_context)(
            void*, const unsigned char*, unsigned int
        ) noexcept nogil
        void (*SSL_CTX_sess_set_new_cb)(void*, fp_tls_session_cb) noexcept nogil
        int (*SSL_CTX_set_num_tickets)(void*, size_t) noexcept nogil
        void (*SSL_CTX_set_default_read_buffer_len)(void*, size_t) noexcept nogil
        void* (*SSL_new)(void*) noexcept nogil
        void (*SSL_free)(void*) noexcept nogil
        void (*SSL_set_bio)(void*, void*, void*) noexcept nogil
        void (*SSL_set_connect_state)(void*) noexcept nogil
        void (*SSL_set_accept_state)(void*) noexcept nogil
        int (*SSL_do_handshake)(void*) noexcept nogil
        int (*SSL_read)(void*, void*, int) noexcept nogil
        int (*SSL_write)(void*, const void*, int) noexcept nogil
        int (*SSL_shutdown)(void*) noexcept nogil
        void (*SSL_set_shutdown)(void*, int) noexcept nogil
        int (*SSL_has_pending)(const void*) noexcept nogil
        int (*SSL_get_error)(const void*, int) noexcept nogil
        long (*SSL_ctrl)(void*, int, long, void*) noexcept nogil
        int (*SSL_set_ex_data)(void*, int, void*) noexcept nogil
        void* (*SSL_get_ex_data)(const void*, int) noexcept nogil
        int (*SSL_get_ex_data_X509_STORE_CTX_idx)() noexcept nogil
        long (*SSL_get_verify_result)(const void*) noexcept nogil
        void* (*SSL_get0_param)(void*) noexcept nogil
        int (*SSL_set1_host)(void*, const char*) noexcept nogil
        int (*SSL_set_session)(void*, void*) noexcept nogil
        int (*SSL_session_reused)(const void*) noexcept nogil
        const char* (*SSL_get_version)(const void*) noexcept nogil
        const void* (*SSL_get_current_cipher)(const void*) noexcept nogil
        const char* (*SSL_CIPHER_get_name)(const void*) noexcept nogil
        int (*SSL_SESSION_is_resumable)(const void*) noexcept nogil
        void (*SSL_SESSION_free)(void*) noexcept nogil
        void (*X509_VERIFY_PARAM_set_hostflags)(void*, unsigned int) noexcept nogil
        int (*X509_VERIFY_PARAM_set1_ip_asc)(void*, const char*) noexcept nogil
        int (*X509_STORE_add_cert)(void*, void*) noexcept nogil
        int (*X509_STORE_add_crl)(void*, void*) noexcept nogil
        int (*X509_STORE_set_flags)(void*, unsigned long) noexcept nogil
        void* (*X509_STORE_CTX_get_ex_data)(const void*, int) noexcept nogil
        int (*X509_STORE_CTX_get_error)(const void*) noexcept nogil
        void* (*X509_STORE_CTX_get_current_cert)(const void*) noexcept nogil
        const char* (*X509_verify_cert_error_string)(long) noexcept nogil
        const char* (*X509_get_default_cert_file)() noexcept nogil
        const char* (*X509_get_default_cert_dir)() noexcept nogil
        void (*X509_free)(void*) noexcept nogil
        void (*X509_CRL_free)(void*) noexcept nogil
        int (*X509_up_ref)(void*) noexcept nogil
        int (*X509_cmp)(const void*, const void*) noexcept nogil
        void* (*X509_get_subject_name)(const void*) noexcept nogil
        void* (*X509_get_issuer_name)(const void*) noexcept nogil
        char* (*X509_NAME_oneline)(const void*, char*, int) noexcept nogil
        int (*X509_NAME_get_text_by_NID)(void*, int, char*, int) noexcept nogil
        const void* (*X509_get0_notBefore)(const void*) noexcept nogil
        const void* (*X509_get0_notAfter)(const void*) noexcept nogil
        int (*ASN1_TIME_to_tm)(const void*, tm*) noexcept nogil
        void* (*X509_get_ext_d2i)(const void*, int, int*, int*) noexcept nogil
        int (*OPENSSL_sk_num)(const void*) noexcept nogil
        void* (*OPENSSL_sk_value)(const void*, int) noexcept nogil
        void (*OPENSSL_sk_free)(void*) noexcept nogil
        void* (*GENERAL_NAME_get0_value)(const void*, int*) noexcept nogil
        void (*GENERAL_NAMES_free)(void*) noexcept nogil
        const unsigned char* (*ASN1_STRING_get0_data)(const void*) noexcept nogil
        int (*ASN1_STRING_length)(const void*) noexcept nogil
        int (*i2d_X509)(const void*, unsigned char**) noexcept nogil
        void* (*PEM_read_bio_X509)(void*, void**, fp_tls_password_cb, void*) noexcept nogil
        void* (*PEM_read_bio_X509_CRL)(void*, void**, fp_tls_password_cb, void*) noexcept nogil
        void* (*PEM_read_bio_PrivateKey)(void*, void**, fp_tls_password_cb, void*) noexcept nogil
        void (*EVP_PKEY_free)(void*) noexcept nogil
        void* (*d2i_PKCS12_bio)(void*, void**) noexcept nogil
        int (*PKCS12_parse)(void*, const char*, void**, void**, void**) noexcept nogil
        void (*PKCS12_free)(void*) noexcept nogil
        void* (*peer_certificate)(const void*) noexcept nogil

    unsigned long FP_TLS_OLDEST
    int FP_TLS_ERROR_SSL
    int FP_TLS_WANT_READ
    int FP_TLS_WANT_WRITE
    int FP_TLS_ZERO_RETURN
    int FP_TLS_LIB_SSL
    int FP_TLS_VERSION_1_2
    int FP_TLS_VERSION_1_3
    int FP_TLS_OP_NO_COMPRESSION
    int FP_TLS_OP_NO_RENEGOTIATION
    int FP_TLS_OP_CIPHER_SERVER_PREFERENCE
    int FP_TLS_MODE_MOVING_WRITE_BUFFER
    int FP_TLS_MODE_RELEASE_BUFFERS
    int FP_TLS_CTRL_MODE
    int FP_TLS_CTRL_SET_READ_AHEAD
    int FP_TLS_CTRL_SET_SESS_CACHE_MODE
    int FP_TLS_CTRL_SET_TLSEXT_HOSTNAME
    int FP_TLS_CTRL_CHAIN_CERT
    int FP_TLS_CTRL_SET_MIN_PROTO_VERSION
    int FP_TLS_CTRL_SET_MAX_PROTO_VERSION
    int FP_TLS_SESS_CACHE_CLIENT_ONLY_CALLBACK
    int FP_TLS_VERIFY_PEER
    int FP_TLS_VERIFY_REQUIRED
    int FP_TLS_SENT_AND_RECEIVED_SHUTDOWN
    int FP_TLS_BIO_TYPE
    int FP_TLS_BIO_RETRY_READ
    int FP_TLS_BIO_RETRY_ANY
    int FP_TLS_BIO_CTRL_EOF
    int FP_TLS_BIO_CTRL_FLUSH
    int FP_TLS_NO_PARTIAL_WILDCARDS
    int FP_TLS_CRL_CHECK
    int FP_TLS_STRICT
    int FP_TLS_PARTIAL_CHAIN
    int FP_TLS_NID_COMMON_NAME
    int FP_TLS_NID_SUBJECT_ALT_NAME
    int FP_TLS_NAME_DNS
    int FP_TLS_NAME_IP

# OWNER this module.   THREADS written once, under the GIL; read by any after `openssl_load`.
cdef fp_tls_api openssl

# Find the functions, once; raises ImportError that says what is missing.
cdef int openssl_load() except -1
# What OpenSSL says about the failure that just was, its error queue being empty then.
cdef str openssl_error()
