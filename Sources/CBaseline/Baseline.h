#ifndef BASELINE_H
#define BASELINE_H

#include "CBaseline.h"

#include <stddef.h>

#define SQLITE_HAS_CODEC 1
#include <sqlcipher/sqlite3.h>

struct baseline {
    sqlite3 *connection;
};

// The statements around the work of a transaction.
typedef struct {
    sqlite3_stmt *begin, *work, *commit;
} transaction;

// Compiles the three; `sql` may be NULL.
int transaction_prepare(baseline *db, const char *begin, const char *sql, transaction *result);
void transaction_finalize(transaction *statements);
// Steps a statement without rows, and resets it. Returns SQLITE_OK or what went wrong.
int run_once(sqlite3_stmt *statement);

#endif
