/* The functions of OpenSSL that we call, as a table of pointers.
 *
 * They live in the library that Python's own _ssl extension has linked or loaded; no header and no
 * link is needed. Everything of OpenSSL is opaque here. Names and numbers below belong to the
 * stable ABI of 1.1.1 and 3.x. The table is filled from one handle only, so that versions never
 * mix; it is written once and read by any thread afterwards.
 */
#ifndef FP_TLS_API_H
#define FP_TLS_API_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int (*fp_tls_verify_cb)(int ok, void *store_context);
typedef int (*fp_tls_password_cb)(char *buffer, int size, int writing, void *cookie);
typedef int (*fp_tls_session_cb)(void *ssl, void *session);
typedef int (*fp_tls_bio_write)(void *bio, const char *data, int size);
typedef int (*fp_tls_bio_read)(void *bio, char *data, int size);
typedef long (*fp_tls_bio_ctrl)(void *bio, int command, long number, void *pointer);

/* result, name, arguments */
#define FP_TLS_FUNCTIONS(F)                                                                        \
    F(unsigned long, OpenSSL_version_num, (void))                                                  \
    F(const char *, OpenSSL_version, (int))                                                        \
    F(void, CRYPTO_free, (void *, const char *, int))                                              \
    F(unsigned long, ERR_get_error, (void))                                                        \
    F(void, ERR_clear_error, (void))                                                               \
    F(void, ERR_error_string_n, (unsigned long, char *, size_t))                                   \
    F(const char *, ERR_reason_error_string, (unsigned long))                                      \
    F(void *, BIO_new, (const void *))                                                             \
    F(void *, BIO_new_mem_buf, (const void *, int))                                                \
    F(int, BIO_free, (void *))                                                                     \
    F(void *, BIO_get_data, (void *))                                                              \
    F(void, BIO_set_data, (void *, void *))                                                        \
    F(void, BIO_set_init, (void *, int))                                                           \
    F(void, BIO_set_flags, (void *, int))                                                          \
    F(void, BIO_clear_flags, (void *, int))                                                        \
    F(void *, BIO_meth_new, (int, const char *))                                                   \
    F(int, BIO_meth_set_write, (void *, fp_tls_bio_write))                                         \
    F(int, BIO_meth_set_read, (void *, fp_tls_bio_read))                                           \
    F(int, BIO_meth_set_ctrl, (void *, fp_tls_bio_ctrl))                                           \
    F(const void *, TLS_client_method, (void))                                                     \
    F(const void *, TLS_server_method, (void))                                                     \
    F(void *, SSL_CTX_new, (const void *))                                                         \
    F(void, SSL_CTX_free, (void *))                                                                \
    F(long, SSL_CTX_ctrl, (void *, int, long, void *))                                             \
    F(unsigned long, SSL_CTX_set_options, (void *, unsigned long))                                 \
    F(int, SSL_CTX_set_cipher_list, (void *, const char *))                                        \
    F(int, SSL_CTX_set_ciphersuites, (void *, const char *))                                       \
    F(int, SSL_CTX_set_default_verify_paths, (void *))                                             \
    F(void *, SSL_CTX_get_cert_store, (const void *))                                              \
    F(int, SSL_CTX_add_client_CA, (void *, void *))                                                \
    F(void, SSL_CTX_set_verify, (void *, int, fp_tls_verify_cb))                                   \
    F(int, SSL_CTX_use_certificate, (void *, void *))                                              \
    F(int, SSL_CTX_use_PrivateKey, (void *, void *))                                               \
    F(int, SSL_CTX_check_private_key, (const void *))                                              \
    F(int, SSL_CTX_set_session_id_context, (void *, const unsigned char *, unsigned))              \
    F(void, SSL_CTX_sess_set_new_cb, (void *, fp_tls_session_cb))                                  \
    F(int, SSL_CTX_set_num_tickets, (void *, size_t))                                              \
    F(void, SSL_CTX_set_default_read_buffer_len, (void *, size_t))                                 \
    F(void *, SSL_new, (void *))                                                                   \
    F(void, SSL_free, (void *))                                                                    \
    F(void, SSL_set_bio, (void *, void *, void *))                                                 \
    F(void, SSL_set_connect_state, (void *))                                                       \
    F(void, SSL_set_accept_state, (void *))                                                        \
    F(int, SSL_do_handshake, (void *))                                                             \
    F(int, SSL_read, (void *, void *, int))                                                        \
    F(int, SSL_write, (void *, const void *, int))                                                 \
    F(int, SSL_shutdown, (void *))                                                                 \
    F(void, SSL_set_shutdown, (void *, int))                                                       \
    F(int, SSL_has_pending, (const void *))                                                        \
    F(int, SSL_get_error, (const void *, int))                                                     \
    F(long, SSL_ctrl, (void *, int, long, void *))                                                 \
    F(int, SSL_set_ex_data, (void *, int, void *))                                                 \
    F(void *, SSL_get_ex_data, (const void *, int))                                                \
    F(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void))                                             \
    F(long, SSL_get_verify_result, (const void *))                                                 \
    F(void *, SSL_get0_param, (void *))                                                            \
    F(int, SSL_set1_host, (void *, const char *))                                                  \
    F(int, SSL_set_session, (void *, void *))                                                      \
    F(int, SSL_session_reused, (const void *))                                                     \
    F(const char *, SSL_get_version, (const void *))                                               \
    F(const void *, SSL_get_current_cipher, (const void *))                                        \
    F(const char *, SSL_CIPHER_get_name, (const void *))                                           \
    F(int, SSL_SESSION_is_resumable, (const void *))                                               \
    F(void, SSL_SESSION_free, (void *))                                                            \
    F(void, X509_VERIFY_PARAM_set_hostflags, (void *, unsigned))                                   \
    F(int, X509_VERIFY_PARAM_set1_ip_asc, (void *, const char *))                                  \
    F(int, X509_STORE_add_cert, (void *, void *))                                                  \
    F(int, X509_STORE_add_crl, (void *, void *))                                                   \
    F(int, X509_STORE_set_flags, (void *, unsigned long))                                          \
    F(void *, X509_STORE_CTX_get_ex_data, (const void *, int))                                     \
    F(int, X509_STORE_CTX_get_error, (const void *))                                               \
    F(void *, X509_STORE_CTX_get_current_cert, (const void *))                                     \
    F(const char *, X509_verify_cert_error_string, (long))                                         \
    F(const char *, X509_get_default_cert_file, (void))                                            \
    F(const char *, X509_get_default_cert_dir, (void))                                             \
    F(void, X509_free, (void *))                                                                   \
    F(void, X509_CRL_free, (void *))                                                               \
    F(int, X509_up_ref, (void *))                                                                  \
    F(int, X509_cmp, (const void *, const void *))                                                 \
    F(void *, X509_get_subject_name, (const void *))                                               \
    F(void *, X509_get_issuer_name, (const void *))                                                \
    F(char *, X509_NAME_oneline, (const void *, char *, int))                                      \
    F(int, X509_NAME_get_text_by_NID, (void *, int, char *, int))                                  \
    F(const void *, X509_get0_notBefore, (const void *))                                           \
    F(const void *, X509_get0_notAfter, (const void *))                                            \
    F(int, ASN1_TIME_to_tm, (const void *, struct tm *))                                           \
    F(void *, X509_get_ext_d2i, (const void *, int, int *, int *))                                 \
    F(int, OPENSSL_sk_num, (const void *))                                                         \
    F(void *, OPENSSL_sk_value, (const void *, int))                                               \
    F(void, OPENSSL_sk_free, (void *))                                                             \
    F(void *, GENERAL_NAME_get0_value, (const void *, int *))                                      \
    F(void, GENERAL_NAMES_free, (void *))                                                          \
    F(const unsigned char *, ASN1_STRING_get0_data, (const void *))                                \
    F(int, ASN1_STRING_length, (const void *))                                                     \
    F(int, i2d_X509, (const void *, unsigned char **))                                             \
    F(void *, PEM_read_bio_X509, (void *, void **, fp_tls_password_cb, void *))                    \
    F(void *, PEM_read_bio_X509_CRL, (void *, void **, fp_tls_password_cb, void *))                \
    F(void *, PEM_read_bio_PrivateKey, (void *, void **, fp_tls_password_cb, void *))              \
    F(void, EVP_PKEY_free, (void *))                                                               \
    F(void *, d2i_PKCS12_bio, (void *, void **))                                                   \
    F(int, PKCS12_parse, (void *, const char *, void **, void **, void **))                        \
    F(void, PKCS12_free, (void *))

#define FP_TLS_MEMBER(result, name, arguments) result(*name) arguments;
typedef struct {
    FP_TLS_FUNCTIONS(FP_TLS_MEMBER)
    /* SSL_get1_peer_certificate; before 3.0 SSL_get_peer_certificate, the same. */
    void *(*peer_certificate)(const void *ssl);
} fp_tls_api;
#undef FP_TLS_MEMBER

enum {
    FP_TLS_OLDEST = 0x10101000L, /* 1.1.1 */
    FP_TLS_ERROR_SSL = 1,
    FP_TLS_WANT_READ = 2,
    FP_TLS_WANT_WRITE = 3,
    FP_TLS_ZERO_RETURN = 6,
    FP_TLS_LIB_SSL = 20,
    FP_TLS_VERSION_1_2 = 0x0303,
    FP_TLS_VERSION_1_3 = 0x0304,
    FP_TLS_OP_NO_COMPRESSION = 0x00020000,
    FP_TLS_OP_NO_RENEGOTIATION = 0x40000000,
    FP_TLS_OP_CIPHER_SERVER_PREFERENCE = 0x00400000,
    FP_TLS_MODE_MOVING_WRITE_BUFFER = 2,
    FP_TLS_MODE_RELEASE_BUFFERS = 16,
    FP_TLS_CTRL_MODE = 33,
    FP_TLS_CTRL_SET_READ_AHEAD = 41,
    FP_TLS_CTRL_SET_SESS_CACHE_MODE = 44,
    FP_TLS_CTRL_SET_TLSEXT_HOSTNAME = 55,
    FP_TLS_CTRL_CHAIN_CERT = 89,
    FP_TLS_CTRL_SET_MIN_PROTO_VERSION = 123,
    FP_TLS_CTRL_SET_MAX_PROTO_VERSION = 124,
    FP_TLS_SESS_CACHE_CLIENT_ONLY_CALLBACK = 0x001 | 0x200 | 0x100, /* no lookup, no store */
    FP_TLS_VERIFY_PEER = 1,
    FP_TLS_VERIFY_REQUIRED = 2,
    FP_TLS_SENT_AND_RECEIVED_SHUTDOWN = 3,
    FP_TLS_BIO_TYPE = 100 | 0x0400, /* BIO_TYPE_SOURCE_SINK */
    FP_TLS_BIO_RETRY_READ = 0x01 | 0x08,
    FP_TLS_BIO_RETRY_ANY = 0x0F,
    FP_TLS_BIO_CTRL_EOF = 2,
    FP_TLS_BIO_CTRL_FLUSH = 11,
    FP_TLS_NO_PARTIAL_WILDCARDS = 4,
    FP_TLS_CRL_CHECK = 0x4,
    FP_TLS_STRICT = 0x20,
    FP_TLS_PARTIAL_CHAIN = 0x80000,
    FP_TLS_NID_COMMON_NAME = 13,
    FP_TLS_NID_SUBJECT_ALT_NAME = 85,
    FP_TLS_NAME_DNS = 2,
    FP_TLS_NAME_IP = 7
};

/* NULL: all found. Else the name of a function that `handle` does not have; the table is blank. */
static inline const char *fp_tls_load(fp_tls_api *api, void *handle) {
    const char *missing = NULL;
#define FP_TLS_FIND(result, name, arguments)                                                       \
    *(void **)&api->name = dlsym(handle, #name);                                                   \
    if (api->name == NULL && missing == NULL) missing = #name;
    FP_TLS_FUNCTIONS(FP_TLS_FIND)
#undef FP_TLS_FIND
    *(void **)&api->peer_certificate = dlsym(handle, "SSL_get1_peer_certificate");
    if (api->peer_certificate == NULL)
        *(void **)&api->peer_certificate = dlsym(handle, "SSL_get_peer_certificate");
    if (api->peer_certificate == NULL && missing == NULL) missing = "SSL_get1_peer_certificate";
    if (missing != NULL) memset(api, 0, sizeof *api);
    return missing;
}

/* A handle whose functions are in use must never be closed. */
static inline void *fp_tls_open(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_LOCAL); }

static inline void fp_tls_close(void *handle) { dlclose(handle); }

#endif
