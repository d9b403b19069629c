#define _GNU_SOURCE
#include "FaultShim.h"

#ifdef __linux__

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A sanitizer's own start calls these functions before it can be called itself. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("address", "thread"))), apply_to = function)
#endif

/* Whether any call has to be looked at more closely. Everything else is guarded by `guard`. */
static atomic_bool active;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static struct {
    char pattern[PATH_MAX];
    unsigned calls;
    long first;
    bool forever;
    int action;
    int error_number;
    long seen;
    /* Counting begins with this call; 0 when it has begun. */
    struct {
        char pattern[PATH_MAX];
        unsigned calls;
        long left;
    } start;
    int report; /* 0 for none */
} plan;

static struct {
    char pattern[PATH_MAX];
    int log; /* 0 for none */
} recording;

static void update_active(void) { atomic_store(&active, plan.calls != 0 || recording.log != 0); }

void fault_arm(const char *pattern, unsigned calls, long first, bool forever, int action, int error_number) {
    pthread_mutex_lock(&guard);
    snprintf(plan.pattern, sizeof plan.pattern, "%s", pattern);
    plan.calls = calls;
    plan.first = first;
    plan.forever = forever;
    plan.action = action;
    plan.error_number = error_number;
    plan.seen = 0;
    plan.start.left = 0;
    update_active();
    pthread_mutex_unlock(&guard);
}

void fault_begin_with(const char *pattern, unsigned calls, long number) {
    pthread_mutex_lock(&guard);
    snprintf(plan.start.pattern, sizeof plan.start.pattern, "%s", pattern);
    plan.start.calls = calls;
    plan.start.left = number;
    pthread_mutex_unlock(&guard);
}

void fault_disarm(void) {
    pthread_mutex_lock(&guard);
    plan.calls = 0;
    update_active();
    pthread_mutex_unlock(&guard);
}

long fault_count(void) {
    pthread_mutex_lock(&guard);
    long seen = plan.seen;
    pthread_mutex_unlock(&guard);
    return seen;
}

bool fault_record(const char *pattern, const char *log) {
    long file = syscall(SYS_openat, AT_FDCWD, log, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return false;
    pthread_mutex_lock(&guard);
    snprintf(recording.pattern, sizeof recording.pattern, "%s", pattern);
    recording.log = (int)file;
    update_active();
    pthread_mutex_unlock(&guard);
    return true;
}

/* MARK: What happens to a call */

static const char *path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t count = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    path[count < 0 ? 0 : count] = 0;
    return path;
}

/* The path of a name in an open folder. */
static const char *path_in(int folder, const char *name, char *whole) {
    if (folder == AT_FDCWD || name[0] == '/') return name;
    path_of(folder, whole);
    size_t length = strlen(whole);
    snprintf(whole + length, PATH_MAX - length, "/%s", name);
    return whole;
}

static const struct {
    const char *name;
    unsigned call;
} kinds[] = {
    {"open", FAULT_OPEN}, {"write", FAULT_WRITE}, {"sync", FAULT_SYNC}, {"truncate", FAULT_TRUNCATE},
    {"name", FAULT_NAME}, {"unlink", FAULT_UNLINK}, {"read", FAULT_READ},
    {"mkdir", FAULT_FOLDER},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void append_to(int file, const void *bytes, size_t count);

static void report_call(unsigned call, const char *path) {
    if (plan.report == 0) return;
    const char *name = "";
    for (int index = 0; index < KINDS; index++) {
        if (kinds[index].call == call) name = kinds[index].name;
    }
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s %s\n", plan.seen, name, path);
    append_to(plan.report, line, (size_t)length);
}

/* Whether counting has begun, with this call at the latest. */
static bool is_counting(unsigned call, const char *path) {
    if (plan.start.left == 0) return true;
    if (!(plan.start.calls & call) || fnmatch(plan.start.pattern, path, 0) != 0) return false;
    plan.start.left--;
    return plan.start.left == 0;
}

/* Counts a call and says what happens to it. Stops or ends the process where that is it. */
static int judge(unsigned call, const char *path) {
    if (plan.calls == 0 || !is_counting(call, path)) return FAULT_NONE;
    if (!(plan.calls & call) || fnmatch(plan.pattern, path, 0) != 0) return FAULT_NONE;
    plan.seen++;
    report_call(call, path);
    bool chosen = plan.first > 0 && (plan.seen == plan.first || (plan.forever && plan.seen > plan.first));
    if (!chosen) return FAULT_NONE;
    int action = plan.action;
    if (action == FAULT_HALF && call != FAULT_WRITE) action = FAULT_DIE;
    if (action == FAULT_TEAR && call != FAULT_WRITE) action = FAULT_FAIL;
    if (action == FAULT_LOSE && call != FAULT_NAME) action = FAULT_FAIL;
    if (action == FAULT_DIE) kill(getpid(), SIGKILL);
    if (action == FAULT_STOP) {
        pthread_mutex_unlock(&guard);
        kill(getpid(), SIGSTOP);
        pthread_mutex_lock(&guard);
        return FAULT_NONE;
    }
    if (action == FAULT_FAIL || action == FAULT_TEAR || action == FAULT_LOSE) errno = plan.error_number;
    return action;
}

static void append_to(int file, const void *bytes, size_t count) {
    const char *next = bytes;
    while (count > 0) {
        long written = syscall(SYS_write, file, next, count);
        if (written <= 0) abort();
        next += written;
        count -= (size_t)written;
    }
}

static void append(const void *bytes, size_t count) { append_to(recording.log, bytes, count); }

static bool is_recorded(const char *path) {
    return recording.log != 0 && fnmatch(recording.pattern, path, 0) == 0;
}

static void record(
    const char *call, unsigned long inode, long offset, size_t count, const char *path, const char *other,
    const void *bytes) {
    char line[2 * PATH_MAX + 128];
    const char *tab = other ? "\t" : "";
    int length = snprintf(
        line, sizeof line, "%s %lu %ld %zu %s%s%s\n", call, inode, offset, count, path, tab, other ? other : "");
    append(line, (size_t)length);
    if (bytes) {
        append(bytes, count);
        append("\n", 1);
    }
}

static unsigned long inode_of(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 ? (unsigned long)status.st_ino : 0;
}

/* MARK: The calls */

static int shim_open(int folder, const char *name, int flags, mode_t mode) {
    char whole[PATH_MAX];
    if (!atomic_load(&active)) return (int)syscall(SYS_openat, folder, name, flags, mode);
    pthread_mutex_lock(&guard);
    const char *path = path_in(folder, name, whole);
    int result = -1;
    if (judge(FAULT_OPEN, path) == FAULT_NONE) {
        bool is_new = (flags & O_CREAT) && syscall(SYS_faccessat, folder, name, F_OK) != 0;
        result = (int)syscall(SYS_openat, folder, name, flags, mode);
        if (result >= 0 && is_new && is_recorded(path)) record("create", inode_of(result), 0, 0, path, NULL, NULL);
    }
    int failure = errno;
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

static int shim_mknod(const char *path, mode_t mode, dev_t device) {
    pthread_mutex_lock(&guard);
    int result = -1;
    if (!atomic_load(&active) || judge(FAULT_OPEN, path) == FAULT_NONE) {
        result = (int)syscall(SYS_mknodat, AT_FDCWD, path, mode, (unsigned)device);
        struct stat status;
        if (result == 0 && is_recorded(path) && stat(path, &status) == 0) {
            record("create", (unsigned long)status.st_ino, 0, 0, path, NULL, NULL);
        }
    }
    int failure = errno;
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

static int shim_mkdir(int folder, const char *name, mode_t mode) {
    char whole[PATH_MAX];
    pthread_mutex_lock(&guard);
    int result = -1;
    if (!atomic_load(&active) || judge(FAULT_FOLDER, path_in(folder, name, whole)) == FAULT_NONE) {
        result = (int)syscall(SYS_mkdirat, folder, name, mode);
    }
    int failure = errno;
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

static ssize_t raw_write(int descriptor, const void *bytes, size_t count, off64_t offset) {
    if (offset < 0) return syscall(SYS_write, descriptor, bytes, count);
    return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

/* A negative offset stands for the descriptor's own position. */
static ssize_t shim_write(int descriptor, const void *bytes, size_t count, off64_t offset) {
    char path[PATH_MAX];
    if (!atomic_load(&active)) return raw_write(descriptor, bytes, count, offset);
    pthread_mutex_lock(&guard);
    path_of(descriptor, path);
    int action = judge(FAULT_WRITE, path);
    int failure = errno;
    off64_t position = offset >= 0 ? offset : (off64_t)syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
    ssize_t result = -1;
    if (action != FAULT_FAIL) {
        size_t wanted = action == FAULT_NONE ? count : count / 2;
        result = raw_write(descriptor, bytes, wanted, offset);
        if (action == FAULT_NONE) failure = errno;
        if (result > 0 && is_recorded(path)) {
            record("write", inode_of(descriptor), position, (size_t)result, path, NULL, bytes);
        }
        if (action == FAULT_HALF) kill(getpid(), SIGKILL);
        if (action == FAULT_TEAR) result = -1;
    }
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

static ssize_t raw_read(int descriptor, void *bytes, size_t count, off64_t offset) {
    if (offset < 0) return syscall(SYS_read, descriptor, bytes, count);
    return syscall(SYS_pread64, descriptor, bytes, count, offset);
}

/* A negative offset stands for the descriptor's own position. The lock is not held while bytes are waited for. */
static ssize_t shim_read(int descriptor, void *bytes, size_t count, off64_t offset) {
    char path[PATH_MAX];
    if (!atomic_load(&active)) return raw_read(descriptor, bytes, count, offset);
    pthread_mutex_lock(&guard);
    int action = plan.calls & FAULT_READ ? judge(FAULT_READ, path_of(descriptor, path)) : FAULT_NONE;
    int failure = errno;
    pthread_mutex_unlock(&guard);
    if (action == FAULT_NONE) return raw_read(descriptor, bytes, count, offset);
    errno = failure;
    return -1;
}

/* A call on a descriptor that has at most a length. */
static int shim_descriptor(unsigned kind, const char *name, long number, int descriptor, long length) {
    char path[PATH_MAX];
    if (!atomic_load(&active)) return (int)syscall(number, descriptor, length);
    pthread_mutex_lock(&guard);
    path_of(descriptor, path);
    int result = -1;
    if (judge(kind, path) == FAULT_NONE) {
        result = (int)syscall(number, descriptor, length);
        if (result == 0 && is_recorded(path)) record(name, inode_of(descriptor), length, 0, path, NULL, NULL);
    }
    int failure = errno;
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

/* A name in an open folder. */
struct place {
    int folder;
    const char *name;
};

/* A call on names; `other` is the new name, or has none. The flags are those of unlinkat and linkat. */
static int shim_name(unsigned kind, const char *call, struct place from, struct place to, int flags) {
    bool is_rename = strcmp(call, "rename") == 0;
    char whole[PATH_MAX], other_whole[PATH_MAX];
    pthread_mutex_lock(&guard);
    bool is_looked_at = atomic_load(&active);
    const char *path = is_looked_at ? path_in(from.folder, from.name, whole) : from.name;
    const char *other = is_looked_at && to.name ? path_in(to.folder, to.name, other_whole) : to.name;
    int result = -1;
    int action = is_looked_at ? judge(kind, other ? other : path) : FAULT_NONE;
    int lost = errno;
    if (action == FAULT_NONE || action == FAULT_LOSE) {
        if (!other) {
            result = (int)syscall(SYS_unlinkat, from.folder, from.name, flags);
        } else if (is_rename) {
            result = (int)syscall(SYS_renameat2, from.folder, from.name, to.folder, to.name, 0);
        } else {
            result = (int)syscall(SYS_linkat, from.folder, from.name, to.folder, to.name, flags);
        }
        if (result == 0 && is_recorded(path)) record(call, 0, 0, 0, path, other, NULL);
    }
    int failure = action == FAULT_LOSE ? lost : errno;
    if (action == FAULT_LOSE) result = -1;
    pthread_mutex_unlock(&guard);
    errno = failure;
    return result;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN_BODY(folder)                         \
    va_list arguments;                            \
    va_start(arguments, flags);                   \
    mode_t mode = mode_of(flags, arguments);      \
    va_end(arguments);                            \
    return shim_open(folder, path, flags, mode);

int open(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD) }
int open64(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD) }
int openat(int folder, const char *path, int flags, ...) { OPEN_BODY(folder) }
int openat64(int folder, const char *path, int flags, ...) { OPEN_BODY(folder) }
int mknod(const char *path, mode_t mode, dev_t device) { return shim_mknod(path, mode, device); }
int mkdir(const char *path, mode_t mode) { return shim_mkdir(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return shim_mkdir(folder, path, mode); }
ssize_t write(int descriptor, const void *bytes, size_t count) { return shim_write(descriptor, bytes, count, -1); }
ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return shim_write(descriptor, bytes, count, offset);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    return shim_write(descriptor, bytes, count, offset);
}
ssize_t read(int descriptor, void *bytes, size_t count) { return shim_read(descriptor, bytes, count, -1); }
ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    return shim_read(descriptor, bytes, count, offset);
}
ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    return shim_read(descriptor, bytes, count, offset);
}
int fsync(int descriptor) { return shim_descriptor(FAULT_SYNC, "sync", SYS_fsync, descriptor, 0); }
int fdatasync(int descriptor) { return shim_descriptor(FAULT_SYNC, "sync", SYS_fdatasync, descriptor, 0); }
int ftruncate(int descriptor, off_t length) {
    return shim_descriptor(FAULT_TRUNCATE, "truncate", SYS_ftruncate, descriptor, length);
}
int ftruncate64(int descriptor, off64_t length) {
    return shim_descriptor(FAULT_TRUNCATE, "truncate", SYS_ftruncate, descriptor, length);
}
int renameat(int folder, const char *path, int other_folder, const char *other) {
    struct place from = {folder, path}, to = {other_folder, other};
    return shim_name(FAULT_NAME, "rename", from, to, 0);
}
int rename(const char *path, const char *other) { return renameat(AT_FDCWD, path, AT_FDCWD, other); }
int linkat(int folder, const char *path, int other_folder, const char *other, int flags) {
    struct place from = {folder, path}, to = {other_folder, other};
    return shim_name(FAULT_NAME, "link", from, to, flags);
}
int link(const char *path, const char *other) { return linkat(AT_FDCWD, path, AT_FDCWD, other, 0); }
int unlinkat(int folder, const char *path, int flags) {
    struct place from = {folder, path}, to = {AT_FDCWD, NULL};
    return shim_name(FAULT_UNLINK, "unlink", from, to, flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

/* MARK: A program that is not linked with it */

/* The value of a variable, which no child inherits. */
static const char *taken(const char *name, char *value, size_t size) {
    const char *text = getenv(name);
    snprintf(value, size, "%s", text ? text : "");
    unsetenv(name);
    return value;
}

static long taken_number(const char *name) {
    char value[32];
    return strtol(taken(name, value, sizeof value), NULL, 10);
}

static unsigned taken_kinds(const char *name) {
    char value[256];
    taken(name, value, sizeof value);
    unsigned all = 0;
    char *rest = NULL;
    for (char *word = strtok_r(value, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        for (int index = 0; index < KINDS; index++) {
            if (strcmp(kinds[index].name, word) == 0) all |= kinds[index].call;
        }
    }
    return all;
}

__attribute__((constructor)) static void arm_from_environment(void) {
    if (!getenv("FAULT_FILES")) return;
    char pattern[PATH_MAX], start[PATH_MAX], report[PATH_MAX];
    taken("FAULT_FILES", pattern, sizeof pattern);
    taken("FAULT_START_FILES", start, sizeof start);
    taken("FAULT_REPORT", report, sizeof report);
    unsetenv("LD_PRELOAD");
    unsigned calls = taken_kinds("FAULT_CALLS");
    unsigned start_calls = taken_kinds("FAULT_START_CALLS");
    long number = taken_number("FAULT_NUMBER");
    bool is_torn = taken_number("FAULT_TORN") != 0;
    bool is_lost = taken_number("FAULT_LOST") != 0;
    bool forever = taken_number("FAULT_ALWAYS") != 0;
    int error_number = (int)taken_number("FAULT_ERRNO");
    int action = is_torn ? FAULT_TEAR : is_lost ? FAULT_LOSE : FAULT_FAIL;
    fault_arm(pattern, calls, number, forever, action, error_number);
    if (start_calls != 0) fault_begin_with(start, start_calls, taken_number("FAULT_START_NUMBER"));
    if (report[0] != 0) {
        long file = syscall(SYS_openat, AT_FDCWD, report, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0) abort();
        plan.report = (int)file;
    }
}

/* MARK: The wall clock */

static atomic_long clock_jump;
static atomic_ulong clock_questions;

void fault_jump_clock(long seconds) { atomic_store(&clock_jump, seconds); }

/* Forwards, backwards, and by another amount each time. */
static long jump(void) {
    long range = atomic_load(&clock_jump);
    if (range == 0) return 0;
    unsigned long number = atomic_fetch_add(&clock_questions, 1) * 0x9e3779b97f4a7c15UL;
    return (long)((number >> 16) % (unsigned long)(2 * range)) - range;
}

static atomic_bool has_no_file_watches;

void fault_set_file_watches(bool exist) { atomic_store(&has_no_file_watches, !exist); }

int inotify_init1(int flags) {
    if (atomic_load(&has_no_file_watches)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += jump();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (result == 0) now->tv_sec += jump();
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

#ifdef __clang__
#pragma clang attribute pop
#endif

#else

void fault_arm(const char *pattern, unsigned calls, long first, bool forever, int action, int error_number) {
    (void)pattern, (void)calls, (void)first, (void)forever, (void)action, (void)error_number;
}
void fault_begin_with(const char *pattern, unsigned calls, long number) { (void)pattern, (void)calls, (void)number; }
void fault_disarm(void) {}
long fault_count(void) { return 0; }
bool fault_record(const char *pattern, const char *log) {
    (void)pattern, (void)log;
    return false;
}
void fault_jump_clock(long seconds) { (void)seconds; }
void fault_set_file_watches(bool exist) { (void)exist; }

#endif
