#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

uint64_t cplatform_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef __linux__
/* Not FUTEX_PRIVATE_FLAG: the sleepers are other processes. A relative timeout runs on CLOCK_MONOTONIC. */
int cplatform_futex_wait(void *word, uint32_t expected, uint64_t timeout_ns) {
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    return syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0) == 0 ? 0 : errno;
}

void cplatform_futex_wake(void *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }
void cplatform_futex_wake_all(void *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }
#else
int cplatform_futex_wait(void *word, uint32_t expected, uint64_t timeout_ns) {
    (void)word;
    (void)expected;
    (void)timeout_ns;
    return ENOSYS;
}

void cplatform_futex_wake(void *word) { (void)word; }
void cplatform_futex_wake_all(void *word) { (void)word; }
#endif

/* Writes zeros behind the end of a file. */
static int extend_with_zeros(int descriptor, int64_t length) {
    static const char zeros[4096];
    struct stat status;
    if (fstat(descriptor, &status) != 0) return errno;
    while (status.st_size < length) {
        int64_t missing = length - status.st_size;
        ssize_t written = pwrite(descriptor, zeros, missing < 4096 ? (size_t)missing : 4096, status.st_size);
        if (written < 0 && errno != EINTR) return errno;
        if (written > 0) status.st_size += written;
    }
    return 0;
}

int cplatform_reserve(int descriptor, int64_t length) {
#ifdef __linux__
    int result;
    do {
        result = fallocate(descriptor, 0, 0, length);
    } while (result == -1 && errno == EINTR);
    if (result == 0) return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
#endif
    return extend_with_zeros(descriptor, length);
}

int cplatform_map(int descriptor, int64_t offset, uint64_t length, void **memory) {
    void *address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
    if (address == MAP_FAILED) return errno;
    *memory = address;
    return 0;
}

void cplatform_unmap(void *memory, uint64_t length) { munmap(memory, length); }
