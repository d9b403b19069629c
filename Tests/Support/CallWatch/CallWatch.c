#define _GNU_SOURCE
#include "CallWatch.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(void (*)(const char *)) watcher;

void call_watch(void (*report)(const char *what)) { atomic_store(&watcher, report); }

#ifdef __linux__

#include <dlfcn.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* Tests may derive with less: SQLCipher derives the key of its HMAC in 2 rounds, tests of keyslots use N = 2^14. */
enum { FEWEST_ROUNDS = 10000, LEAST_MEMORY_COST = 1 << 15 };

static void note(const char *what) {
    void (*report)(const char *) = atomic_load(&watcher);
    if (report != NULL) report(what);
}

/* The next definition of a function: that of the library. A pointer to data may not be cast to a function in ISO C. */
#define NEXT(name) \
    ({ \
        static _Atomic(void *) next; \
        void *found = atomic_load(&next); \
        if (found == NULL) { \
            found = dlsym(RTLD_NEXT, #name); \
            atomic_store(&next, found); \
        } \
        (__typeof__(&name))(uintptr_t)found; \
    })

EXPORTED int posix_spawn(
    pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,
    const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict]) {
    note("a process is started");
    return NEXT(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

EXPORTED int posix_spawnp(
    pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *restrict actions,
    const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict]) {
    note("a process is started");
    return NEXT(posix_spawnp)(pid, file, actions, attributes, argv, envp);
}

EXPORTED pid_t fork(void) {
    note("a process is started");
    return NEXT(fork)();
}

/* libcrypto's types are of no interest here, so its header is not needed. */
EXPORTED int PKCS5_PBKDF2_HMAC(
    const char *password, int password_bytes, const unsigned char *salt, int salt_bytes, int rounds,
    const void *digest, int key_bytes, unsigned char *key) {
    if (rounds >= FEWEST_ROUNDS) note("a key is derived by PBKDF2");
    return NEXT(PKCS5_PBKDF2_HMAC)(password, password_bytes, salt, salt_bytes, rounds, digest, key_bytes, key);
}

EXPORTED int EVP_PBE_scrypt(
    const char *password, size_t password_bytes, const unsigned char *salt, size_t salt_bytes, uint64_t cost,
    uint64_t block_size, uint64_t lanes, uint64_t memory_limit, unsigned char *key, size_t key_bytes) {
    if (cost >= LEAST_MEMORY_COST) note("a key is derived by scrypt");
    return NEXT(EVP_PBE_scrypt)(
        password, password_bytes, salt, salt_bytes, cost, block_size, lanes, memory_limit, key, key_bytes);
}

#endif
