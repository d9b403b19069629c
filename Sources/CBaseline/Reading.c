#include "Baseline.h"

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

static int read_by_id(sqlite3_stmt *statement, int64_t id, int64_t *sum) {
    sqlite3_bind_int64(statement, 1, id);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *sum += sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
    }
    sqlite3_reset(statement);
    return code;
}

int64_t baseline_point_reads(baseline *db, const char *sql, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN DEFERRED", sql, &statements);
    int64_t sum = 0;
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        code = run_once(statements.begin);
        if (code == SQLITE_OK) code = read_by_id(statements.work, 1 + index * 7 % count, &sum);
        if (code == SQLITE_OK) code = run_once(statements.commit);
    }
    transaction_finalize(&statements);
    return code == SQLITE_OK ? sum : -code;
}

int64_t baseline_point_reads_in_transaction(baseline *db, const char *sql, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN DEFERRED", sql, &statements);
    int64_t sum = 0;
    if (code == SQLITE_OK) code = run_once(statements.begin);
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        code = read_by_id(statements.work, 1 + index * 7 % count, &sum);
    }
    if (code == SQLITE_OK) code = run_once(statements.commit);
    transaction_finalize(&statements);
    return code == SQLITE_OK ? sum : -code;
}

int baseline_empty_transactions(baseline *db, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN DEFERRED", "PRAGMA schema_version", &statements);
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        code = run_once(statements.begin);
        if (code == SQLITE_OK && sqlite3_step(statements.work) != SQLITE_ROW) code = SQLITE_ERROR;
        sqlite3_reset(statements.work);
        if (code == SQLITE_OK) code = run_once(statements.commit);
    }
    transaction_finalize(&statements);
    return -code;
}

int64_t baseline_sum_mixed(baseline *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->connection, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) return -code;
    int64_t sum = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        if (text != NULL) sum += sqlite3_column_bytes(statement, 0);
        const void *blob = sqlite3_column_blob(statement, 1);
        if (blob != NULL) sum += sqlite3_column_bytes(statement, 1);
        sum += (int64_t)sqlite3_column_double(statement, 2);
        const unsigned char *date = sqlite3_column_text(statement, 3);
        if (date != NULL) sum += sqlite3_column_bytes(statement, 3);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? sum : -code;
}
