#include "Baseline.h"

#include <time.h>

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t baseline_contended_writes(baseline *db, const char *sql, double seconds, uint32_t *microseconds,
                                  int64_t capacity) {
    transaction statements;
    sqlite3_busy_timeout(db->connection, 30000);
    sqlite3_wal_autocheckpoint(db->connection, 1000);
    int code = transaction_prepare(db, "BEGIN IMMEDIATE", sql, &statements);
    int64_t count = 0, now = monotonic_ns(), end = now + (int64_t)(seconds * 1e9);
    while (code == SQLITE_OK && now < end && count < capacity) {
        sqlite3_bind_int64(statements.work, 1, count);
        code = run_once(statements.begin);
        if (code == SQLITE_OK) code = run_once(statements.work);
        if (code == SQLITE_OK) code = run_once(statements.commit);
        int64_t later = monotonic_ns();
        microseconds[count++] = (uint32_t)((later - now) / 1000);
        now = later;
    }
    transaction_finalize(&statements);
    return code == SQLITE_OK ? count : -code;
}
