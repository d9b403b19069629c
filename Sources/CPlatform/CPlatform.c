#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#else
#include <spawn.h>
#include <sys/acl.h>
#include <sys/mount.h>
#include <sys/param.h>
#endif

extern char **environ;

/* Open-file-description locks. Apple's SDKs from macOS 15 on declare them; older ones have the same numbers in the
   kernel but keep them private. Untested there. */
#if !defined(F_OFD_SETLK) && defined(__APPLE__)
#define F_OFD_SETLK 90
#define F_OFD_GETLK 92
#endif

static int lock_command(int descriptor, int command, int kind, int64_t start, int64_t length, struct flock *range) {
    memset(range, 0, sizeof *range);
    range->l_type = kind == CPLATFORM_UNLOCK ? F_UNLCK : kind == CPLATFORM_LOCK_SHARED ? F_RDLCK : F_WRLCK;
    range->l_whence = SEEK_SET;
    range->l_start = start;
    range->l_len = length;
    int result;
    do {
        result = fcntl(descriptor, command, range);
    } while (result == -1 && errno == EINTR);
    return result == -1 ? errno : 0;
}

int cplatform_next_data(int descriptor, int64_t offset, int64_t *found) {
#ifdef SEEK_DATA
    off_t position = lseek(descriptor, (off_t)offset, SEEK_DATA);
    if (position == (off_t)-1) return errno;
    *found = position;
    return 0;
#else
    (void)descriptor, (void)offset, (void)found;
    return EINVAL;
#endif
}

int cplatform_lock_set(int descriptor, int kind, int64_t start, int64_t length) {
    struct flock range;
    return lock_command(descriptor, F_OFD_SETLK, kind, start, length, &range);
}

int cplatform_lock_probe(int descriptor, int kind, int64_t start, int64_t length, int *found) {
    struct flock range;
    int failure = lock_command(descriptor, F_OFD_GETLK, kind, start, length, &range);
    if (failure != 0) return failure;
    *found = range.l_type == F_UNLCK   ? CPLATFORM_UNLOCK
             : range.l_type == F_RDLCK ? CPLATFORM_LOCK_SHARED
                                       : CPLATFORM_LOCK_EXCLUSIVE;
    return 0;
}

int cplatform_writeback_begin(int descriptor) {
#ifdef __linux__
    return sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 ? 0 : errno;
#else
    (void)descriptor;
    return ENOTSUP;
#endif
}

bool cplatform_is_sole_opener(int descriptor) {
#ifdef __linux__
    if (fcntl(descriptor, F_SETLEASE, F_WRLCK) == -1) return false;
    fcntl(descriptor, F_SETLEASE, F_UNLCK);
    return true;
#else
    (void)descriptor;
    return false;
#endif
}

int cplatform_filesystem(const char *path, uint64_t *type, char *name, size_t name_capacity) {
    struct statfs status;
    int result;
    do {
        result = statfs(path, &status);
    } while (result == -1 && errno == EINTR);
    if (result == -1) return errno;
    if (name_capacity > 0) name[0] = 0;
#ifdef __linux__
    /* The field is signed and as wide as a word; the published numbers have 32 bits. */
    *type = (uint64_t)(uint32_t)status.f_type;
#else
    *type = (uint64_t)(uint32_t)status.f_type;
    if (name_capacity > 0) strlcpy(name, status.f_fstypename, name_capacity);
#endif
    return 0;
}

void cplatform_device_numbers(dev_t device, unsigned *major_number, unsigned *minor_number) {
    *major_number = (unsigned)major(device);
    *minor_number = (unsigned)minor(device);
}

int cplatform_read_link(const char *path, struct stat *found, char *target, size_t capacity) {
    int failure = 0;
#ifdef __linux__
    int number = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
#else
    int number = open(path, O_SYMLINK | O_CLOEXEC);
#endif
    if (number < 0) return errno;
    if (fstat(number, found) != 0) {
        failure = errno;
    } else if (!S_ISLNK(found->st_mode)) {
        failure = EINVAL;
    } else {
#ifdef __linux__
        ssize_t length = readlinkat(number, "", target, capacity);
#else
        ssize_t length = freadlink(number, target, capacity);
#endif
        if (length < 0) {
            failure = errno;
        } else if ((size_t)length >= capacity) {
            failure = ENAMETOOLONG;
        } else {
            target[length] = 0;
        }
    }
    close(number);
    return failure;
}

#ifdef __linux__
#define ACL_ATTRIBUTE "system.posix_acl_access"

static int is_without_acl(int failure) { return failure == ENODATA || failure == ENOTSUP || failure == EOPNOTSUPP; }

int cplatform_attributes(const char *path, struct stat *found, void *list, size_t capacity, size_t *count) {
    *count = 0;
    /* Such a descriptor needs no right to read, and closing it drops no lock. */
    int number = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (number < 0) return errno;
    int failure = fstat(number, found) == 0 ? 0 : errno;
    if (failure == 0 && S_ISREG(found->st_mode)) {
        /* The link leads to the open file itself, whatever the path names by now. */
        char name[40];
        snprintf(name, sizeof name, "/proc/self/fd/%d", number);
        ssize_t length = getxattr(name, ACL_ATTRIBUTE, list, capacity);
        /* Without /proc: the list of what the path names now. */
        if (length < 0 && errno == ENOENT) length = lgetxattr(path, ACL_ATTRIBUTE, list, capacity);
        if (length > 0) *count = (size_t)length;
        if (length < 0 && !is_without_acl(errno)) failure = errno;
    }
    close(number);
    return failure;
}

int cplatform_acl_apply(int to, const void *list, size_t count) {
    if (count == 0) {
        /* The new file may have inherited a list from its directory that the model does not have. */
        if (fremovexattr(to, ACL_ATTRIBUTE) == 0 || is_without_acl(errno)) return 0;
        return errno;
    }
    if (fsetxattr(to, ACL_ATTRIBUTE, list, count, 0) == 0 || is_without_acl(errno)) return 0;
    return errno;
}
#else
int cplatform_attributes(const char *path, struct stat *found, void *list, size_t capacity, size_t *count) {
    *count = 0;
    if (lstat(path, found) != 0) return errno;
    acl_t acl = acl_get_link_np(path, ACL_TYPE_EXTENDED);
    if (acl == NULL) return errno == ENOENT || errno == ENOTSUP ? 0 : errno;
    ssize_t length = acl_copy_ext(list, acl, (ssize_t)capacity);
    int failure = length < 0 ? errno : 0;
    if (length > 0) *count = (size_t)length;
    acl_free(acl);
    return failure;
}

int cplatform_acl_apply(int to, const void *list, size_t count) {
    if (count == 0) return 0;
    acl_t acl = acl_copy_int(list);
    if (acl == NULL) return errno;
    int failure = acl_set_fd(to, acl) == 0 || errno == ENOTSUP ? 0 : errno;
    acl_free(acl);
    return failure;
}
#endif

int cplatform_forbid_dumps(void) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) return errno;
#ifdef __linux__
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno;
#endif
    return 0;
}

int cplatform_pipe(int ends[2]) {
#ifdef __linux__
    return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
#else
    if (pipe(ends) != 0) return errno;
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC) == -1 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) == -1) {
        int failure = errno;
        close(ends[0]);
        close(ends[1]);
        return failure;
    }
    return 0;
#endif
}

#ifdef __linux__
/* In the child, between vfork and exec: only calls that are safe there. Returns the errno of the call that failed. */
static int become_program(
    const char *file, char *const argv[], char *const environment[], int input, int output, bool leads_group, pid_t parent) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    /* It fails for the signals that cannot be caught. */
    for (int number = 1; number < NSIG; number++) sigaction(number, &action, NULL);
    if (leads_group && setpgid(0, 0) != 0) return errno;
    /* The memory is that of the parent: a signal that ends the parent from here on ends the group, too. */
    cplatform_interruption_ends_child(leads_group ? -getpid() : getpid());
    /* The kernel sends it when the thread that has started the program ends, which waits for the program. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return errno;
    if (getppid() != parent) return ESRCH;
    /* The number of the output may be that of the standard input. */
    if (output <= STDERR_FILENO && (output = fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) < 0) return errno;
    if (input == STDIN_FILENO ? fcntl(input, F_SETFD, 0) != 0 : dup2(input, STDIN_FILENO) < 0) return errno;
    if (dup2(output, STDOUT_FILENO) < 0) return errno;
    /* Until exec the descriptor that reports a failure is needed. */
    enum { CLOSE_ON_EXEC = 4 };
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_ON_EXEC) != 0) {
        long count = sysconf(_SC_OPEN_MAX);
        for (int number = STDERR_FILENO + 1; number < count && number < 65536; number++) fcntl(number, F_SETFD, FD_CLOEXEC);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(file, argv, environment);
    return errno;
}

int cplatform_spawn(
    const char *file, char *const argv[], char *const environment[], int input, int output, bool leads_group,
    pid_t *child) {
    int report[2], failure = cplatform_pipe(report);
    if (failure != 0) return failure;
    sigset_t all, former;
    sigfillset(&all);
    /* A handler of this process must not run in the child, which shares its memory. */
    pthread_sigmask(SIG_BLOCK, &all, &former);
    pid_t parent = getpid();
    pid_t process = vfork();
    if (process == 0) {
        int error = become_program(
            file, argv, environment ? environment : environ, input, output, leads_group, parent);
        ssize_t written = write(report[1], &error, sizeof error);
        _exit(written == sizeof error ? 127 : 126);
    }
    if (process < 0) failure = errno;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    close(report[1]);
    if (process > 0) {
        ssize_t count;
        do count = read(report[0], &failure, sizeof failure);
        while (count < 0 && errno == EINTR);
        if (count != 0) {
            if (count != sizeof failure) failure = EIO;
            while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {}
        }
    }
    close(report[0]);
    if (failure == 0) {
        *child = process;
    } else {
        cplatform_interruption_ends_child(0);
    }
    return failure;
}
#else
int cplatform_spawn(
    const char *file, char *const argv[], char *const environment[], int input, int output, bool leads_group,
    pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    /* Whatever is open is closed in the program that is started, the three standard descriptors excepted. */
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_CLOEXEC_DEFAULT;
    if (leads_group) flags |= POSIX_SPAWN_SETPGROUP;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) return failure;
    failure = posix_spawnattr_init(&attributes);
    if (failure != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return failure;
    }
    sigemptyset(&none);
    sigfillset(&all);
    failure = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (failure == 0) failure = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (failure == 0) failure = posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO);
    if (failure == 0) failure = posix_spawnattr_setsigmask(&attributes, &none);
    if (failure == 0) failure = posix_spawnattr_setsigdefault(&attributes, &all);
    if (failure == 0) failure = posix_spawnattr_setpgroup(&attributes, 0);
    if (failure == 0) failure = posix_spawnattr_setflags(&attributes, flags);
    if (failure == 0) failure = posix_spawnp(child, file, &actions, &attributes, argv, environment ? environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}
#endif

int cplatform_rename_exclusively(int from_folder, const char *from, int to_folder, const char *to) {
#ifdef __linux__
    /* By its number, because not every C library has the call. */
    enum { NO_REPLACE = 1 };
    return syscall(SYS_renameat2, from_folder, from, to_folder, to, NO_REPLACE) == 0 ? 0 : errno;
#else
    return renameatx_np(from_folder, from, to_folder, to, RENAME_EXCL) == 0 ? 0 : errno;
#endif
}

/* Whether it can be what the caller has just created: its own, without rights that were not asked for, and empty. */
static int is_newly_made(const struct stat *found, int is_folder, mode_t mode) {
    if (found->st_uid != geteuid() || (found->st_mode & 0777 & ~mode) != 0) return 0;
    if (is_folder) return S_ISDIR(found->st_mode);
    return S_ISREG(found->st_mode) && found->st_size == 0 && found->st_nlink == 1;
}

int cplatform_complete_mode(int folder, const char *name, int is_folder, mode_t mode) {
    struct stat found;
    int failure = 0;
#ifdef __linux__
    /* Such a descriptor needs no right to read, and closing it drops no lock. */
    int number = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (number < 0) return errno;
    if (fstat(number, &found) != 0) {
        failure = errno;
    } else if (!is_newly_made(&found, is_folder, mode)) {
        failure = ESTALE;
    } else if ((found.st_mode & 0777) != mode) {
        /* The link leads to the open file itself, whatever the name names by now. */
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        if (chmod(path, mode | (found.st_mode & S_ISGID)) != 0) failure = errno;
    }
    close(number);
#else
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    if (!is_newly_made(&found, is_folder, mode)) return ESTALE;
    if ((found.st_mode & 0777) == mode) return 0;
    if (fchmodat(folder, name, mode | (found.st_mode & S_ISGID), AT_SYMLINK_NOFOLLOW) != 0) failure = errno;
#endif
    return failure;
}

void cplatform_wipe(void *bytes, size_t count) {
#ifdef __linux__
    explicit_bzero(bytes, count);
#else
    memset_s(bytes, count, 0, count);
#endif
}
