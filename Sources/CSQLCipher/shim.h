#ifndef CSQLCIPHER_SHIM_H
#define CSQLCIPHER_SHIM_H

// sqlite3_key_v2 and sqlite3_rekey_v2 are hidden in SQLCipher's header unless this is defined first.
#ifndef SQLITE_HAS_CODEC
#define SQLITE_HAS_CODEC 1
#endif

// Debian installs the header as sqlcipher/sqlite3.h, and pkg-config names that folder. The quoted
// form would find the plain SQLite header of the system when both are installed.
#include <sqlcipher/sqlite3.h>

// Swift cannot call C functions with variable arguments; each form in use gets a wrapper.
static inline int csqlcipher_db_config_flag(sqlite3 *db, int option, int value, int *result) {
    return sqlite3_db_config(db, option, value, result);
}

#endif
