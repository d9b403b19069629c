#ifndef CPOSTGRESQL_SHIM_H
#define CPOSTGRESQL_SHIM_H

#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Swift does not import macros that stand for letters.
static const int CPOSTGRESQL_SQLSTATE = PG_DIAG_SQLSTATE;
static const int CPOSTGRESQL_MESSAGE = PG_DIAG_MESSAGE_PRIMARY;

// A descriptor of our own for libpq's socket: libpq closes its one whenever it likes, also while it is waited for.
static inline int cpostgresql_duplicate(int socket) {
    return fcntl(socket, F_DUPFD_CLOEXEC, 3);
}

static inline void cpostgresql_close(int descriptor) {
    close(descriptor);
}

// The bytes that can be read without waiting; 0 where the system cannot count them.
static inline long cpostgresql_readable_bytes(int socket) {
    int count = 0;
    return socket >= 0 && ioctl(socket, FIONREAD, &count) == 0 && count > 0 ? count : 0;
}

// Waits until the socket can be read or written. Returns 0 when the time has passed, and less on an error.
static inline int cpostgresql_wait(int socket, int for_reading, int for_writing, int milliseconds) {
    struct pollfd place = {socket, (short)((for_reading ? POLLIN : 0) | (for_writing ? POLLOUT : 0)), 0};
    return poll(&place, 1, milliseconds);
}

// What a cancellation takes with it, so that the connection may be closed before it is sent.
static inline void *cpostgresql_make_cancel(PGconn *connection) {
#ifdef LIBPQ_HAS_ASYNC_CANCEL
    return PQcancelCreate(connection);
#else
    return PQgetCancel(connection);
#endif
}

// Connects and asks the server to end what the connection does: blocks. libpq 17 and later do it over TLS. Earlier ones send
// the connection's cancellation key in the clear; it is worth nothing then, because the connection is closed.
static inline void cpostgresql_send_cancel(void *request) {
#ifdef LIBPQ_HAS_ASYNC_CANCEL
    PQcancelBlocking((PGcancelConn *)request);
    PQcancelFinish((PGcancelConn *)request);
#else
    char reason[256];
    PQcancel((PGcancel *)request, reason, (int)sizeof reason);
    PQfreeCancel((PGcancel *)request);
#endif
}

#endif
