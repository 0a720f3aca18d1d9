/* Non-blocking stream sockets. No Python.h, no allocation, no state.
 *
 * Calls return a count or minus the errno; EINTR never leaves this file and "would block" is
 * always -EAGAIN.
 */
#ifndef FP_SOCK_H
#define FP_SOCK_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: SO_NOSIGPIPE instead */
#endif

/* Linux and macOS refuse more entries with EMSGSIZE, and macOS more than INT_MAX bytes. */
#define FP_SOCK_MAX_IOV 1024
#define FP_SOCK_MAX_SEND_BYTES ((size_t)1 << 30)

typedef struct iovec fp_iovec;

/* TCP_NODELAY and keep-alive fail on a Unix socket, which does not need them. */
static inline void fp_sock_tune(int fd, int32_t send_bytes, int32_t receive_bytes) {
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (send_bytes >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    if (receive_bytes >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
}

/* Make a descriptor non-blocking and close-on-exec. Returns 0 or the errno. */
static inline int fp_sock_adopt(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return errno;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? errno : 0;
}

/* A non-blocking socket of the address's family, or minus the errno. */
static inline int fp_sock_open(const void *address) {
    int family = ((const struct sockaddr *)address)->sa_family;
#ifdef SOCK_NONBLOCK
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
#else
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0) return -errno;
    int err = fp_sock_adopt(fd);
    if (err == 0) return fd;
    close(fd);
    return -err;
#endif
}

/* 0: connected or under way (writable when it is over). Else the errno. An interrupted connect
 * goes on by itself. */
static inline int fp_sock_connect(int fd, const void *address, uint32_t address_size) {
    if (connect(fd, (const struct sockaddr *)address, (socklen_t)address_size) == 0) return 0;
    return errno == EINPROGRESS || errno == EINTR ? 0 : errno;
}

/* After a connecting socket has become ready: 0 when connected, else the errno.
 *
 * A client that retries a local port nobody listens on can get that very port as its own source
 * and meet itself (TCP simultaneous open). That is a refusal, or the server could never bind it. */
static inline int fp_sock_connected(int fd) {
    struct sockaddr_storage here, there;
    socklen_t here_size = sizeof here, there_size = sizeof there;
    int err = 0;
    socklen_t size = sizeof err;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0) return errno;
    if (err != 0) return err;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getpeername(fd, (struct sockaddr *)&there, &there_size) != 0) return errno;
    if (there.ss_family != AF_INET && there.ss_family != AF_INET6) return 0;
    if (getsockname(fd, (struct sockaddr *)&here, &here_size) != 0) return errno;
    if (here_size == there_size && memcmp(&here, &there, here_size) == 0) return ECONNREFUSED;
    return 0;
}

/* One sendmsg of as many entries as one call takes; `offered` is their size. */
static inline ssize_t fp_sock_send(int fd, fp_iovec *iov, int32_t count, size_t *offered) {
    struct msghdr message;
    ssize_t n;
    int32_t taken = 0;
    size_t bytes = 0;
    while (taken < count && taken < FP_SOCK_MAX_IOV) {
        if (taken > 0 && iov[taken].iov_len > FP_SOCK_MAX_SEND_BYTES - bytes) break;
        bytes += iov[taken++].iov_len;
        if (bytes >= FP_SOCK_MAX_SEND_BYTES) break;
    }
    *offered = bytes;
    memset(&message, 0, sizeof message);
    message.msg_iov = iov;
    message.msg_iovlen = taken;
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) return n;
    return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* Bytes read, 0 at the end of the stream, or minus the errno. */
static inline ssize_t fp_sock_receive(int fd, void *buffer, size_t size) {
    ssize_t n;
    do {
        n = recv(fd, buffer, size, 0);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) return n;
    return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* shutdown tells the peer even while a forked child still holds a copy of the descriptor. The number
 * is forgotten first: once closed it may be somebody else's, and the child of a fork closes what is
 * still noted here. */
static inline void fp_sock_close(int *noted) {
    int fd = *noted;
    (void)shutdown(fd, SHUT_RDWR);
    *noted = -1;
    (void)close(fd);
}

#endif
