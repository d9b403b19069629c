#ifndef CSQLCIPHER_SHIM_H
#define CSQLCIPHER_SHIM_H

// sqlite3_key_v2 and sqlite3_rekey_v2 are hidden in SQLCipher's header unless this is defined first.
#ifndef SQLITE_HAS_CODEC
#define SQLITE_HAS_CODEC 1
#endif

// Debian installs the header as sqlcipher/sqlite3.h beside plain SQLite's sqlite3.h, so the longer name comes first.
// Homebrew's pkg-config names the folder itself, where only the short name exists.
#if __has_include(<sqlcipher/sqlite3.h>)
#include <sqlcipher/sqlite3.h>
#else
#include <sqlite3.h>
#endif

// Fails to compile with plain SQLite's header: better here than at the first wrong byte.
// What the process really loads is checked at run time.
typedef __typeof__(&sqlite3_key_v2) csqlcipher_header_is_sqlcipher;

// Swift cannot call C functions with variable arguments; each form in use gets a wrapper.
static inline int csqlcipher_db_config_flag(sqlite3 *db, int option, int value, int *result) {
    return sqlite3_db_config(db, option, value, result);
}

static inline int csqlcipher_config_log(void (*callback)(void *, int, const char *)) {
    return sqlite3_config(SQLITE_CONFIG_LOG, callback, (void *)0);
}

static inline void csqlcipher_log(int code, const char *message) {
    sqlite3_log(code, "%s", message);
}

#endif
