#ifndef CBASELINE_H
#define CBASELINE_H

#include <stdint.h>

// The work of the benchmark in plain C on the system's SQLCipher: what the library is measured against.
// Every function returns a negative SQLite result code when a call fails.

typedef struct baseline baseline;

// Opens a database in WAL mode by a raw keyspec x'<64 hex><32 hex>' and a plaintext header of 32 bytes.
baseline *baseline_open(const char *path, const char *keyspec);
// Opens a database by passphrase and salt literal x'<32 hex>', reads its schema and closes it: one key derivation.
int baseline_open_by_passphrase(const char *path, const char *passphrase, const char *salt);
void baseline_close(baseline *db);

int baseline_execute(baseline *db, const char *sql);
// Sums ten integer columns of every row.
int64_t baseline_sum_ten_columns(baseline *db, const char *sql);
// Runs BEGIN, one row by id, COMMIT `count` times on prepared statements, and sums what it read.
int64_t baseline_point_reads(baseline *db, const char *sql, int64_t count);

#endif
