#include "CBaseline.h"

#include <stdlib.h>
#include <string.h>

#define SQLITE_HAS_CODEC 1
#include <sqlcipher/sqlite3.h>

struct baseline {
    sqlite3 *connection;
};

static int open_connection(const char *path, const char *key, const char *salt, sqlite3 **connection) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path, connection, flags, NULL);
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
                                        "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0",
                        NULL, NULL, NULL) != SQLITE_OK) {
        baseline_close(db);
        return NULL;
    }
    return db;
}

int baseline_open_by_passphrase(const char *path, const char *passphrase, const char *salt) {
    sqlite3 *connection = NULL;
    int code = open_connection(path, passphrase, salt, &connection);
    if (code == SQLITE_OK) code = sqlite3_exec(connection, "SELECT COUNT(*) FROM sqlite_schema", NULL, NULL, NULL);
    sqlite3_close(connection);
    return -code;
}

void baseline_close(baseline *db) {
    if (db == NULL) return;
    sqlite3_close(db->connection);
    free(db);
}

int baseline_execute(baseline *db, const char *sql) { return -sqlite3_exec(db->connection, sql, NULL, NULL, NULL); }

int64_t baseline_sum_ten_columns(baseline *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->connection, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) return -code;
    int64_t sum = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int column = 0; column < 10; column++) sum += sqlite3_column_int64(statement, column);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? sum : -code;
}

int64_t baseline_point_reads(baseline *db, const char *sql, int64_t count) {
    sqlite3_stmt *begin = NULL, *read = NULL, *commit = NULL;
    int code = sqlite3_prepare_v2(db->connection, "BEGIN DEFERRED", -1, &begin, NULL);
    if (code == SQLITE_OK) code = sqlite3_prepare_v2(db->connection, sql, -1, &read, NULL);
    if (code == SQLITE_OK) code = sqlite3_prepare_v2(db->connection, "COMMIT", -1, &commit, NULL);
    int64_t sum = 0;
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        sqlite3_step(begin);
        sqlite3_reset(begin);
        sqlite3_bind_int64(read, 1, 1 + index * 7 % count);
        if (sqlite3_step(read) == SQLITE_ROW) sum += sqlite3_column_int64(read, 0);
        sqlite3_reset(read);
        sqlite3_step(commit);
        sqlite3_reset(commit);
    }
    sqlite3_finalize(begin);
    sqlite3_finalize(read);
    sqlite3_finalize(commit);
    return code == SQLITE_OK ? sum : -code;
}
