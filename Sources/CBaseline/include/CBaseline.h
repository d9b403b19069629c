#ifndef CBASELINE_H
#define CBASELINE_H

#include <stddef.h>
#include <stdint.h>

// The work of the benchmark in plain C on the system's SQLCipher: what the library is measured against.
// Every function returns a negative SQLite result code when a call fails.

typedef struct baseline baseline;

// MARK: Opening

// Opens a database in WAL mode by a raw keyspec x'<64 hex><32 hex>' and a plaintext header of 32 bytes.
// SQLite's own checkpoints are off.
baseline *baseline_open(const char *path, const char *keyspec);
// Opens `count` connections by passphrase and salt literal x'<32 hex>', each on a thread of its own, reads the schema
// on each and closes them when all are open: one key derivation for each connection.
int baseline_open_by_passphrase(const char *path, const char *passphrase, const char *salt, int count);
void baseline_close(baseline *db);
int baseline_execute(baseline *db, const char *sql);

// MARK: Reading

// Sums ten integer columns of every row.
int64_t baseline_sum_ten_columns(baseline *db, const char *sql);
// Runs BEGIN, one row by id, COMMIT `count` times on prepared statements, and sums what it read.
int64_t baseline_point_reads(baseline *db, const char *sql, int64_t count);
// Reads one row by id `count` times in one transaction, and sums what it read.
int64_t baseline_point_reads_in_transaction(baseline *db, const char *sql, int64_t count);
// Runs BEGIN, a statement that takes the snapshot, and COMMIT `count` times on prepared statements.
int baseline_empty_transactions(baseline *db, int64_t count);
// Reads rows of text, blob, double and date text where SQLite has them, and sums their lengths and the doubles.
int64_t baseline_sum_mixed(baseline *db, const char *sql);

// MARK: Records

// These make structs of rows, each text and blob in memory of its own, and sum some of their values.

// Reads rows of ten integers into an array, and sums the first and the last of each.
int64_t baseline_fetch_integers(baseline *db, const char *sql);
// Reads rows of text, blob, double and date text into an array, and sums their lengths and the doubles.
int64_t baseline_fetch_mixed(baseline *db, const char *sql);
// Reads one row of id, name and score `count` times with a number for all parameters: in one transaction, or in one each.
int64_t baseline_fetch_players(baseline *db, const char *sql, int64_t count, int each_in_transaction);
// Reads authors (id, name), sorted by id, and their books (id, author, title), each into the array of its author.
int64_t baseline_fetch_authors(baseline *db, const char *sql, const char *books_sql);

// MARK: Writing

// Inserts `count` rows of ten integers in one transaction by one prepared statement.
int baseline_insert_integers(baseline *db, const char *sql, int64_t count);
// Inserts `count` rows, one in each transaction, by prepared statements.
int baseline_single_row_writes(baseline *db, const char *sql, int64_t count);

// Inserts rows of one integer, one in each transaction, for some time, beside other processes that do the same: waiting
// by SQLite's busy handler, with SQLite's own checkpoints. Takes down how long each transaction took, its wait included,
// and returns how many there were.
int64_t baseline_contended_writes(baseline *db, const char *sql, double seconds, uint32_t *microseconds,
                                  int64_t capacity);

// One row's values; SQLite copies none of their bytes.
typedef struct {
    const char *text;
    int text_bytes;
    const void *blob;
    int blob_bytes;
    double number;
    const char *date;
    int date_bytes;
} mixed_row;

// Inserts `count` rows of text, blob, double and date text in one transaction, taking `rows` round and round.
int baseline_insert_mixed(baseline *db, const char *sql, const mixed_row *rows, int row_count, int64_t count);

// MARK: Rotation

// What libcrypto needs to take `count` pages in memory from one key to another, on so many threads: HMAC-SHA512, AES-256-CBC
// both ways, HMAC-SHA512. Returns 0, or a negative number.
int baseline_reencrypt(void *pages, int64_t count, int page_bytes, int threads);
// Gives a database another key in place, by `PRAGMA rekey`, with nobody else there.
int baseline_rekey(const char *path, const char *keyspec, const char *new_keyspec);
// Copies a database under another key, by `sqlcipher_export`; the copy has its salt in its header.
int baseline_export(const char *path, const char *keyspec, const char *target, const char *new_keyspec);

// MARK: Processor time

// How much processor time this process has used, on all of its threads.
double processor_seconds(void);

// MARK: Authentication

// Computes HMAC-SHA512 of so many messages with libcrypto alone, shared out among threads: the least time in which the
// pages of a store can be authenticated. Returns 0, or -1 when a call fails.
int baseline_authenticate(int64_t messages, size_t message_bytes, int threads);
// How often the threads of this process have gone to sleep, and so were woken again.
int64_t sleep_count(void);

// MARK: Waking

// Wakes `processes` sleeping processes, one after the other, by a futex for each, `rounds` times with pauses between.
// Takes down for each of them the time from the first wake to the moment when it ran: what no way of telling other
// processes anything can undercut. Returns 0, or a negative errno.
int baseline_wakes(int processes, int rounds, int64_t pause_ns, int64_t *nanoseconds);

// MARK: Counting allocations

// Starts counting what this thread takes from the C allocator. Returns 0 where allocations cannot be counted.
int allocations_start(void);
// How many allocations this thread has made since, and stops counting.
int64_t allocations_stop(void);

#endif
