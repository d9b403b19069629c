#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <linux/time_types.h>
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

#if defined(SYS_futex_waitv) && defined(FUTEX_32)
int cplatform_futex_wait_either(
    void *word, uint32_t expected, void *own, uint32_t own_expected, uint64_t timeout_ns) {
    struct futex_waitv waiters[2] = {
        {.val = expected, .uaddr = (uintptr_t)word, .flags = FUTEX_32},
        {.val = own_expected, .uaddr = (uintptr_t)own, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
    };
    /* This call takes a moment, not a duration. */
    uint64_t end = cplatform_monotonic_ns() + timeout_ns;
    struct __kernel_timespec limit = {(int64_t)(end / 1000000000u), (long long)(end % 1000000000u)};
    if (syscall(SYS_futex_waitv, waiters, 2, 0, &limit, CLOCK_MONOTONIC) >= 0) return 0;
    /* A sandbox that does not know the call may refuse it with any error. */
    return errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT ? errno : ENOSYS;
}
#else
int cplatform_futex_wait_either(
    void *word, uint32_t expected, void *own, uint32_t own_expected, uint64_t timeout_ns) {
    (void)word;
    (void)expected;
    (void)own;
    (void)own_expected;
    (void)timeout_ns;
    return ENOSYS;
}
#endif

void cplatform_futex_wake_own(void *own) { syscall(SYS_futex, own, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
void cplatform_futex_wake(void *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }
void cplatform_futex_wake_all(void *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }
#else
int cplatform_futex_wait(void *word, uint32_t expected, uint64_t timeout_ns) {
    (void)word;
    (void)expected;
    (void)timeout_ns;
    return ENOSYS;
}

int cplatform_futex_wait_either(
    void *word, uint32_t expected, void *own, uint32_t own_expected, uint64_t timeout_ns) {
    (void)own;
    (void)own_expected;
    return cplatform_futex_wait(word, expected, timeout_ns);
}

void cplatform_futex_wake_own(void *own) { (void)own; }
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

/* The mappings of this process. An entry is used while its length is not 0. `lost` is written by the signal handler. */
enum { MAPPINGS = 4096 };
static struct {
    _Atomic uintptr_t start;
    _Atomic uint64_t length;
    _Atomic int lost;
} mappings[MAPPINGS];
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction former_action;
static bool is_guarded;

/* Puts zeros of this process alone in the place of a mapping whose file was truncated, as libwayland does for its pools:
   the instruction that has faulted then succeeds. Any other fault gets the action that was set before. It calls only
   system calls, and reads only atomic variables. */
static void replace_truncated(int number, siginfo_t *info, void *context) {
    (void)context;
    uintptr_t address = (uintptr_t)info->si_addr;
    int saved = errno;
    for (int index = 0; info->si_code > 0 && index < MAPPINGS; index++) {
        uint64_t length = atomic_load(&mappings[index].length);
        uintptr_t start = atomic_load(&mappings[index].start);
        if (length == 0 || address < start || address >= start + length) continue;
        void *memory = mmap(
            (void *)start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (memory == MAP_FAILED) break;
        atomic_store(&mappings[index].lost, 1);
        errno = saved;
        return;
    }
    sigaction(number, &former_action, NULL);
    /* It is delivered when this handler returns. */
    raise(number);
    errno = saved;
}

/* Adds a mapping to those that survive a truncation of their file, unless there are too many. */
static void guard_mapping(void *memory, uint64_t length) {
    pthread_mutex_lock(&mappings_lock);
    if (!is_guarded) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = replace_truncated;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        is_guarded = sigaction(SIGBUS, &action, &former_action) == 0;
    }
    for (int index = 0; index < MAPPINGS; index++) {
        if (atomic_load(&mappings[index].length) != 0) continue;
        atomic_store(&mappings[index].lost, 0);
        atomic_store(&mappings[index].start, (uintptr_t)memory);
        atomic_store(&mappings[index].length, length);
        break;
    }
    pthread_mutex_unlock(&mappings_lock);
}

static int guarded_index(void *memory) {
    for (int index = 0; index < MAPPINGS; index++) {
        if (atomic_load(&mappings[index].length) != 0 && atomic_load(&mappings[index].start) == (uintptr_t)memory) {
            return index;
        }
    }
    return -1;
}

bool cplatform_map_is_lost(void *memory) {
    int index = guarded_index(memory);
    return index >= 0 && atomic_load(&mappings[index].lost) != 0;
}

bool cplatform_map_forget_former_action(void) {
    pthread_mutex_lock(&mappings_lock);
    bool forgets = is_guarded;
    if (forgets) {
        memset(&former_action, 0, sizeof former_action);
        former_action.sa_handler = SIG_DFL;
    }
    pthread_mutex_unlock(&mappings_lock);
    return forgets;
}

int cplatform_map(int descriptor, int64_t offset, uint64_t length, void **memory) {
    void *address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
    if (address == MAP_FAILED) return errno;
    guard_mapping(address, length);
    *memory = address;
    return 0;
}

void cplatform_unmap(void *memory, uint64_t length) {
    pthread_mutex_lock(&mappings_lock);
    int index = guarded_index(memory);
    if (index >= 0) atomic_store(&mappings[index].length, 0);
    pthread_mutex_unlock(&mappings_lock);
    munmap(memory, length);
}
