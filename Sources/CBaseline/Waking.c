#define _GNU_SOURCE
#include "Baseline.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#if defined(__linux__)
static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What the processes share: one word for each sleeper, far from the others, and when it ran after the latest wake. */
typedef struct {
    _Atomic uint32_t word;
    _Atomic int64_t ran;
    char rest[112];
} sleeper;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void sleep_and_note(sleeper *own) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        while (own->word == 0) futex(&own->word, FUTEX_WAIT, 0);
        own->word = 0;
        own->ran = monotonic_ns();
    }
}

static void end_all(pid_t *children, int count) {
    for (int index = 0; index < count; index++) {
        kill(children[index], SIGKILL);
        waitpid(children[index], NULL, 0);
    }
}

static void pause_for(int64_t pause_ns) {
    struct timespec pause = {(time_t)(pause_ns / 1000000000), (long)(pause_ns % 1000000000)};
    nanosleep(&pause, NULL);
}

int baseline_wakes(int processes, int rounds, int64_t pause_ns, int64_t *nanoseconds) {
    enum { MOST = 1000 };
    pid_t children[MOST];
    if (processes < 1 || processes > MOST) return -EINVAL;
    size_t length = sizeof(sleeper) * (size_t)processes;
    sleeper *sleepers = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sleepers == MAP_FAILED) return -errno;
    int code = 0, count = 0;
    for (; count < processes; count++) {
        pid_t child = fork();
        if (child == 0) sleep_and_note(&sleepers[count]);
        if (child < 0) {
            code = -errno;
            break;
        }
        children[count] = child;
    }
    for (int round = 0; round < rounds && code == 0; round++) {
        pause_for(pause_ns);
        for (int index = 0; index < processes; index++) sleepers[index].ran = 0;
        int64_t start = monotonic_ns();
        for (int index = 0; index < processes; index++) {
            sleepers[index].word = 1;
            futex(&sleepers[index].word, FUTEX_WAKE, 1);
        }
        for (int index = 0; index < processes; index++) {
            while (sleepers[index].ran == 0) pause_for(100000);
            *nanoseconds++ = sleepers[index].ran - start;
        }
    }
    end_all(children, count);
    munmap(sleepers, length);
    return code;
}
#else
int baseline_wakes(int processes, int rounds, int64_t pause_ns, int64_t *nanoseconds) {
    (void)processes;
    (void)rounds;
    (void)pause_ns;
    (void)nanoseconds;
    return -ENOSYS;
}
#endif
