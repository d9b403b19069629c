#include "Baseline.h"

static void bind_ten(sqlite3_stmt *statement, int64_t first) {
    for (int column = 0; column < 10; column++) sqlite3_bind_int64(statement, column + 1, first + column);
}

int baseline_insert_integers(baseline *db, const char *sql, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN IMMEDIATE", sql, &statements);
    if (code == SQLITE_OK) code = run_once(statements.begin);
    for (int64_t row = 0; code == SQLITE_OK && row < count; row++) {
        bind_ten(statements.work, row);
        code = run_once(statements.work);
    }
    if (code == SQLITE_OK) code = run_once(statements.commit);
    transaction_finalize(&statements);
    return -code;
}

int baseline_single_row_writes(baseline *db, const char *sql, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN IMMEDIATE", sql, &statements);
    for (int64_t row = 0; code == SQLITE_OK && row < count; row++) {
        code = run_once(statements.begin);
        bind_ten(statements.work, row);
        if (code == SQLITE_OK) code = run_once(statements.work);
        if (code == SQLITE_OK) code = run_once(statements.commit);
    }
    transaction_finalize(&statements);
    return -code;
}

int baseline_insert_mixed(baseline *db, const char *sql, const mixed_row *rows, int row_count, int64_t count) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN IMMEDIATE", sql, &statements);
    if (code == SQLITE_OK) code = run_once(statements.begin);
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        const mixed_row *row = &rows[index % row_count];
        sqlite3_bind_text(statements.work, 1, row->text, row->text_bytes, SQLITE_STATIC);
        sqlite3_bind_blob(statements.work, 2, row->blob, row->blob_bytes, SQLITE_STATIC);
        sqlite3_bind_double(statements.work, 3, row->number);
        sqlite3_bind_text(statements.work, 4, row->date, row->date_bytes, SQLITE_STATIC);
        code = run_once(statements.work);
    }
    if (code == SQLITE_OK) code = run_once(statements.commit);
    transaction_finalize(&statements);
    return -code;
}
