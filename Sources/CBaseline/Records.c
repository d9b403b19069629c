#include "Baseline.h"

#include <stdlib.h>
#include <string.h>

// What a C program makes of rows that it keeps: structs in an array that doubles, each text and blob in memory of its
// own. Nothing is checked that SQLite does not check, and memory is taken to be there.

static void *grown(void *array, int64_t count, int64_t *capacity, size_t bytes) {
    if (count < *capacity) return array;
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    return realloc(array, (size_t)*capacity * bytes);
}

static char *copied(const void *bytes, int count) {
    char *copy = malloc((size_t)count + 1);
    if (bytes != NULL) memcpy(copy, bytes, (size_t)count);
    copy[count] = 0;
    return copy;
}

static char *copied_text(sqlite3_stmt *statement, int column, int *bytes) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    *bytes = sqlite3_column_bytes(statement, column);
    return copied(text, *bytes);
}

static int prepare(baseline *db, const char *sql, sqlite3_stmt **statement) {
    return sqlite3_prepare_v3(db->connection, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

typedef struct {
    int64_t values[10];
} integers;

int64_t baseline_fetch_integers(baseline *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int code = prepare(db, sql, &statement);
    if (code != SQLITE_OK) return -code;
    integers *records = NULL;
    int64_t count = 0, capacity = 0, sum = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        records = grown(records, count, &capacity, sizeof *records);
        integers *record = &records[count++];
        for (int column = 0; column < 10; column++) record->values[column] = sqlite3_column_int64(statement, column);
    }
    sqlite3_finalize(statement);
    for (int64_t index = 0; index < count; index++) sum += records[index].values[0] + records[index].values[9];
    free(records);
    return code == SQLITE_DONE ? sum : -code;
}

typedef struct {
    char *text, *blob, *date;
    int text_bytes, blob_bytes, date_bytes;
    double number;
} mixed;

int64_t baseline_fetch_mixed(baseline *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int code = prepare(db, sql, &statement);
    if (code != SQLITE_OK) return -code;
    mixed *records = NULL;
    int64_t count = 0, capacity = 0, sum = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        records = grown(records, count, &capacity, sizeof *records);
        mixed *record = &records[count++];
        record->text = copied_text(statement, 0, &record->text_bytes);
        const void *blob = sqlite3_column_blob(statement, 1);
        record->blob_bytes = sqlite3_column_bytes(statement, 1);
        record->blob = copied(blob, record->blob_bytes);
        record->number = sqlite3_column_double(statement, 2);
        record->date = copied_text(statement, 3, &record->date_bytes);
    }
    sqlite3_finalize(statement);
    for (int64_t index = 0; index < count; index++) {
        mixed *record = &records[index];
        sum += record->text_bytes + record->blob_bytes + record->date_bytes + (int64_t)record->number;
        free(record->text);
        free(record->blob);
        free(record->date);
    }
    free(records);
    return code == SQLITE_DONE ? sum : -code;
}

// Reads one row of an id, a name and a score.
static int read_player(sqlite3_stmt *statement, int64_t *sum) {
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        int bytes = 0;
        int64_t id = sqlite3_column_int64(statement, 0);
        char *name = copied_text(statement, 1, &bytes);
        *sum += id + bytes + sqlite3_column_int64(statement, 2);
        free(name);
        code = SQLITE_OK;
    }
    sqlite3_reset(statement);
    return code;
}

int64_t baseline_fetch_players(baseline *db, const char *sql, int64_t count, int each_in_transaction) {
    transaction statements;
    int code = transaction_prepare(db, "BEGIN DEFERRED", sql, &statements);
    int parameters = sqlite3_bind_parameter_count(statements.work);
    int64_t sum = 0;
    if (code == SQLITE_OK && !each_in_transaction) code = run_once(statements.begin);
    for (int64_t index = 0; code == SQLITE_OK && index < count; index++) {
        if (each_in_transaction) code = run_once(statements.begin);
        for (int place = 1; place <= parameters; place++) {
            sqlite3_bind_int64(statements.work, place, 1 + index * 7 % count);
        }
        if (code == SQLITE_OK) code = read_player(statements.work, &sum);
        if (code == SQLITE_OK && each_in_transaction) code = run_once(statements.commit);
    }
    if (code == SQLITE_OK && !each_in_transaction) code = run_once(statements.commit);
    transaction_finalize(&statements);
    return code == SQLITE_OK ? sum : -code;
}

typedef struct {
    int64_t id, author;
    char *title;
    int bytes;
} book;

typedef struct {
    int64_t id;
    char *name;
    int bytes;
    book *books;
    int64_t count, capacity;
} author;

static int compare_author(const void *id, const void *element) {
    int64_t left = *(const int64_t *)id, right = ((const author *)element)->id;
    return left < right ? -1 : left > right;
}

static int read_authors(baseline *db, const char *sql, author **authors, int64_t *count) {
    sqlite3_stmt *statement = NULL;
    int64_t capacity = 0;
    int code = prepare(db, sql, &statement);
    while (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        *authors = grown(*authors, *count, &capacity, sizeof **authors);
        author *one = &(*authors)[(*count)++];
        *one = (author){.id = sqlite3_column_int64(statement, 0)};
        one->name = copied_text(statement, 1, &one->bytes);
    }
    return code == SQLITE_OK ? sqlite3_finalize(statement) : code;
}

static int read_books(baseline *db, const char *sql, author *authors, int64_t count) {
    sqlite3_stmt *statement = NULL;
    int code = prepare(db, sql, &statement);
    while (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 1);
        author *one = bsearch(&id, authors, (size_t)count, sizeof *authors, compare_author);
        if (one == NULL) continue;
        one->books = grown(one->books, one->count, &one->capacity, sizeof *one->books);
        book *added = &one->books[one->count++];
        *added = (book){.id = sqlite3_column_int64(statement, 0), .author = id};
        added->title = copied_text(statement, 2, &added->bytes);
    }
    return code == SQLITE_OK ? sqlite3_finalize(statement) : code;
}

int64_t baseline_fetch_authors(baseline *db, const char *sql, const char *books_sql) {
    author *authors = NULL;
    int64_t count = 0, sum = 0;
    int code = read_authors(db, sql, &authors, &count);
    if (code == SQLITE_OK) code = read_books(db, books_sql, authors, count);
    for (int64_t index = 0; index < count; index++) {
        author *one = &authors[index];
        sum += one->id + one->bytes;
        for (int64_t place = 0; place < one->count; place++) {
            sum += one->books[place].id + one->books[place].author + one->books[place].bytes;
            free(one->books[place].title);
        }
        free(one->name);
        free(one->books);
    }
    free(authors);
    return code == SQLITE_OK ? sum : -code;
}
