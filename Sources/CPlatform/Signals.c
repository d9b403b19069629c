#define _GNU_SOURCE
#include "Signals.h"

#include "CPlatform.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* SIGCONT first: the kernel removes a pending stop when SIGCONT is sent. */
static const int watched_signals[] = {SIGCONT, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
enum { watched_count = sizeof watched_signals / sizeof watched_signals[0] };
/* The bit of SIGTSTP, the last of them. */
static const unsigned stop_bit = 1u << (watched_count - 1);
static struct sigaction former_actions[watched_count];
/* Whether the watch is on, and which of the watched signals were caught. One word: a handler that runs on another thread
   while the watch ends either leaves its signal in what the end reads, or sees that it has ended. */
static const unsigned watch_is_on = 1u << 31;
static _Atomic unsigned watch_state;
static _Atomic bool has_continued;

static void remember_signal(int number) {
    int failure = errno;
    unsigned bit = 0;
    for (int index = 0; index < watched_count; index++) {
        if (watched_signals[index] == number) bit = 1u << index;
    }
    /* As the kernel does it: SIGCONT takes back a stop that has not taken effect. */
    unsigned taken_back = 0;
    if (number == SIGCONT) {
        atomic_store(&has_continued, true);
        taken_back = stop_bit;
    }
    unsigned state = atomic_load(&watch_state);
    do {
        if (!(state & watch_is_on)) {
            /* The former action is restored, and has not received the signal. */
            kill(getpid(), number);
            break;
        }
    } while (!atomic_compare_exchange_weak(&watch_state, &state, (state | bit) & ~taken_back));
    errno = failure;
}

int cplatform_signal_watch_begin(bool restarts) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember_signal;
    sigemptyset(&action.sa_mask);
    atomic_store(&has_continued, false);
    atomic_store(&watch_state, watch_is_on);
    for (int index = 0; index < watched_count; index++) {
        /* A stop that is over must never end a system call. */
        action.sa_flags = restarts || watched_signals[index] == SIGCONT ? SA_RESTART : 0;
        if (sigaction(watched_signals[index], &action, &former_actions[index]) != 0) return errno;
        /* A signal that the program ignores stays ignored. */
        if (former_actions[index].sa_handler == SIG_IGN) {
            sigaction(watched_signals[index], &former_actions[index], NULL);
        }
    }
    return 0;
}

int cplatform_signal_watch_caught(void) {
    unsigned state = atomic_load(&watch_state);
    for (int index = 0; index < watched_count; index++) {
        if (watched_signals[index] != SIGCONT && state & 1u << index) return watched_signals[index];
    }
    return 0;
}

bool cplatform_signal_watch_take_continued(void) { return atomic_exchange(&has_continued, false); }

/* To this thread where it may take the signal: its course is over then when this returns. */
static void send_again(int number) {
    sigset_t blocked;
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && !sigismember(&blocked, number)) {
        raise(number);
    } else {
        kill(getpid(), number);
    }
}

void cplatform_signal_watch_end(void) {
    for (int index = 0; index < watched_count; index++) {
        sigaction(watched_signals[index], &former_actions[index], NULL);
    }
    unsigned caught = atomic_exchange(&watch_state, 0);
    for (int index = 0; index < watched_count; index++) {
        if (caught & 1u << index) send_again(watched_signals[index]);
    }
}

static const int interruption_signals[] = {SIGINT, SIGTERM, SIGHUP};
static _Atomic bool interruption_is_requested;
/* The pipe into which the handler writes a byte for the thread that waits; negative while no thread waits. */
static _Atomic int interruption_end = -1;

/* The text that the process prints when a signal ends it; NULL while its work polls for the signal instead. */
static char *interruption_text;
static size_t interruption_text_bytes;
static int interruption_status;
/* Whether that ends with cplatform_interruption_begin. */
static bool interruption_ends_until_begin;

/* The program that is run for its output, as one that prints a key; 0 while there is none. */
static _Atomic int interruption_child;

void cplatform_interruption_ends_child(int child) { atomic_store(&interruption_child, child); }

static void end_process(int number) {
    (void)number;
    int child = atomic_load(&interruption_child);
    if (child != 0) kill(child, SIGTERM);
    const char *next = interruption_text;
    size_t left = interruption_text_bytes;
    while (left > 0) {
        ssize_t count = write(2, next, left);
        if (count <= 0) break;
        next += count;
        left -= (size_t)count;
    }
    _exit(interruption_status);
}

/* The time of the first signal, in milliseconds of the monotonic clock; 0 before it. */
static _Atomic long long first_interruption;
/* One request can arrive as several signals within this time: timeout(1) signals the process and its group. */
enum { one_request_ms = 500 };

/* The first signal asks the work to end. A later one ends the process. */
static void request_interruption(int number) {
    int failure = errno;
    struct timespec time;
    long long now = 1, first = 0;
    if (clock_gettime(CLOCK_MONOTONIC, &time) == 0) now = time.tv_sec * 1000LL + time.tv_nsec / 1000000 + 1;
    if (!atomic_compare_exchange_strong(&first_interruption, &first, now)) {
        if (now - first > one_request_ms && interruption_text) end_process(number);
        errno = failure;
        return;
    }
    atomic_store(&interruption_is_requested, true);
    int end = atomic_load(&interruption_end);
    /* It fails only if no thread reads the pipe. */
    if (end >= 0 && write(end, "", 1) < 0) atomic_store(&interruption_end, -1);
    errno = failure;
}

static int handle_interruptions(void (*handler)(int)) {
    struct sigaction action, former;
    sigset_t handled;
    memset(&action, 0, sizeof action);
    sigemptyset(&handled);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (unsigned index = 0; index < sizeof interruption_signals / sizeof interruption_signals[0]; index++) {
        int number = interruption_signals[index];
        if (sigaction(number, NULL, &former) != 0) return errno;
        if (former.sa_handler == SIG_IGN) continue;
        if (sigaction(number, &action, NULL) != 0) return errno;
        sigaddset(&handled, number);
    }
    return pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
}

int cplatform_interruption_begin(void) {
    if (interruption_text && !interruption_ends_until_begin) return 0;
    return handle_interruptions(request_interruption);
}

int cplatform_interruption_ends_process(const char *text, int status, bool until_begin) {
    interruption_text = strdup(text);
    if (!interruption_text) return ENOMEM;
    interruption_text_bytes = strlen(text);
    interruption_status = status;
    interruption_ends_until_begin = until_begin;
    return handle_interruptions(end_process);
}

bool cplatform_interruption_is_requested(void) { return atomic_load(&interruption_is_requested); }

int cplatform_interruption_wait(void) {
    int ends[2];
    int failure = cplatform_pipe(ends);
    if (failure != 0) return failure;
    atomic_store(&interruption_end, ends[1]);
    char byte;
    while (!atomic_load(&interruption_is_requested)) {
        if (read(ends[0], &byte, 1) < 0 && errno != EINTR) return errno;
    }
    return 0;
}

static const int crash_signals[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};

void cplatform_crash_handlers_remove(void) {
    struct sigaction action;
    stack_t stack;
    for (unsigned index = 0; index < sizeof crash_signals / sizeof crash_signals[0]; index++) {
        if (sigaction(crash_signals[index], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        /* The handler that lets mapped files be truncated stays. */
        if (crash_signals[index] == SIGBUS && cplatform_map_forget_former_action()) continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        sigaction(crash_signals[index], &action, NULL);
    }
    memset(&stack, 0, sizeof stack);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}
