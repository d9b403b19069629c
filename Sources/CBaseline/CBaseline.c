#include "Baseline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int open_connection(const char *path, const char *key, const char *salt, sqlite3 **connection) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path, connection, flags, NULL);
    // Connections that open at the same moment find the log's index missing, and all but one of them find it locked.
    if (code == SQLITE_OK) code = sqlite3_busy_timeout(*connection, 10 * 1000);
    if (code == SQLITE_OK) code = sqlite3_key_v2(*connection, "main", key, (int)strlen(key));
    if (code == SQLITE_OK) {
        code = sqlite3_exec(*connection, "PRAGMA cipher_plaintext_header_size = 32", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && salt != NULL) {
        char *sql = sqlite3_mprintf("PRAGMA cipher_salt = \"%s\"", salt);
        code = sqlite3_exec(*connection, sql, NULL, NULL, NULL);
        sqlite3_free(sql);
    }
    return code;
}

baseline *baseline_open(const char *path, const char *keyspec) {
    baseline *db = calloc(1, sizeof *db);
    if (db == NULL) return NULL;
    if (open_connection(path, keyspec, NULL, &db->connection) != SQLITE_OK
        || sqlite3_exec(db->connection, "PRAGMA temp_store = MEMORY; PRAGMA journal_mode = WAL;"
                                        "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;"
                                        "PRAGMA foreign_keys = ON",
                        NULL, NULL, NULL) != SQLITE_OK) {
        baseline_close(db);
        return NULL;
    }
    return db;
}

void baseline_close(baseline *db) {
    if (db == NULL) return;
    sqlite3_close(db->connection);
    free(db);
}

int baseline_execute(baseline *db, const char *sql) { return -sqlite3_exec(db->connection, sql, NULL, NULL, NULL); }

typedef struct {
    const char *path, *passphrase, *salt;
    sqlite3 *connection;
    int code;
} opening;

static void *open_on_thread(void *context) {
    opening *one = context;
    one->code = open_connection(one->path, one->passphrase, one->salt, &one->connection);
    if (one->code == SQLITE_OK) {
        one->code = sqlite3_exec(one->connection, "SELECT COUNT(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    return NULL;
}

int baseline_open_by_passphrase(const char *path, const char *passphrase, const char *salt, int count) {
    opening *all = calloc((size_t)count, sizeof *all);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    if (all == NULL || threads == NULL) {
        free(all);
        free(threads);
        return -SQLITE_NOMEM;
    }
    int started = 0, code = SQLITE_OK;
    for (; started < count; started++) {
        all[started] = (opening){.path = path, .passphrase = passphrase, .salt = salt};
        if (pthread_create(&threads[started], NULL, open_on_thread, &all[started]) != 0) {
            code = SQLITE_NOMEM;
            break;
        }
    }
    for (int index = 0; index < started; index++) {
        pthread_join(threads[index], NULL);
        if (all[index].code != SQLITE_OK) code = all[index].code;
    }
    for (int index = 0; index < started; index++) sqlite3_close(all[index].connection);
    free(all);
    free(threads);
    return -code;
}

int transaction_prepare(baseline *db, const char *begin, const char *sql, transaction *result) {
    *result = (transaction){NULL, NULL, NULL};
    int code = sqlite3_prepare_v3(db->connection, begin, -1, SQLITE_PREPARE_PERSISTENT, &result->begin, NULL);
    if (code == SQLITE_OK && sql != NULL) {
        code = sqlite3_prepare_v3(db->connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &result->work, NULL);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_prepare_v3(db->connection, "COMMIT", -1, SQLITE_PREPARE_PERSISTENT, &result->commit, NULL);
    }
    return code;
}

void transaction_finalize(transaction *statements) {
    sqlite3_finalize(statements->begin);
    sqlite3_finalize(statements->work);
    sqlite3_finalize(statements->commit);
}

int run_once(sqlite3_stmt *statement) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
