#define _GNU_SOURCE
#include "ProcessEvents.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

_Atomic unsigned cplatform_forks;

static void count_fork(void) { atomic_fetch_add_explicit(&cplatform_forks, 1, memory_order_relaxed); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

void cplatform_fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

/* How a stop by the terminal is prepared without losing the SIGCONT that may follow at once.

   One thread, the holder, has SIGTSTP blocked, and always a SIGTSTP of its own pending: its token. The kernel removes the
   token when it generates a SIGCONT, at that moment, whichever thread handles the SIGCONT.

     any other thread   SIGTSTP: notes the number of continuations, writes 't'
                        SIGCONT: counts a continuation, writes 'c'
     the holder         reads 't', and prepares the stop
                        restores the former action, and unblocks SIGTSTP: the token stops the process; without the token
                        the process was continued since, and does not stop
                        blocks SIGTSTP, and raises a token again; it does so for a 'c' as well

   A SIGCONT that arrives before the SIGTSTP removes the token too, and one that arrives before the holder has raised a
   new token finds none. The count of continuations tells them apart.
   POSIX.1-2017, XSH 2.4.1: generating SIGCONT discards pending stop signals, and the other way round. */

static struct sigaction former_stop;
static struct sigaction former_continuation;
static volatile sig_atomic_t notified_descriptor = -1;
static _Atomic unsigned continuations;
static _Atomic unsigned continuations_at_stop;

static void notify(char what) {
    int failure = errno;
    /* A full pipe wakes the holder as well. */
    ssize_t written = write(notified_descriptor, &what, 1);
    (void)written;
    errno = failure;
}

static void note_stop(int number) {
    (void)number;
    atomic_store(&continuations_at_stop, atomic_load(&continuations));
    notify('t');
}

static void note_continuation(int number, siginfo_t *information, void *context) {
    atomic_fetch_add(&continuations, 1);
    notify('c');
    if (former_continuation.sa_flags & SA_SIGINFO) {
        former_continuation.sa_sigaction(number, information, context);
    } else if (former_continuation.sa_handler != SIG_DFL && former_continuation.sa_handler != SIG_IGN) {
        former_continuation.sa_handler(number);
    }
}

static int install_stop(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGTSTP, &action, NULL) == 0 ? 0 : errno;
}

static int install_continuation(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = note_continuation;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGCONT, &action, &former_continuation) == 0 ? 0 : errno;
}

/* Receives SIGTSTP where all threads of the program have it blocked. */
static void *receive(void *unused) {
    (void)unused;
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    for (;;) pause();
}

static int start_receiver(void) {
    pthread_t receiver;
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int failure = pthread_create(&receiver, NULL, receive, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (failure == 0) pthread_detach(receiver);
    return failure;
}

int cplatform_job_control_begin(int descriptor) {
    if (sigaction(SIGTSTP, NULL, &former_stop) != 0) return errno;
    if (!(former_stop.sa_flags & SA_SIGINFO) && former_stop.sa_handler == SIG_IGN) return ENOTSUP;
    notified_descriptor = descriptor;
    int failure = start_receiver();
    if (failure == 0) failure = install_continuation();
    return failure == 0 ? install_stop() : failure;
}

static void set_blocked(int number, int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(how, &set, NULL);
}

static bool is_pending(int number) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, number) == 1;
}

/* Waits a moment for something that another thread is about to do. */
static bool comes_true(bool (*condition)(unsigned), unsigned value) {
    for (int check = 0; check < 50; check++) {
        if (condition(value)) return true;
        usleep(1000);
    }
    return false;
}

static bool has_continued_since(unsigned count) { return atomic_load(&continuations) != count; }

/* A token that is raised removes a SIGCONT that no thread has handled yet. */
static bool is_handled(unsigned unused) {
    (void)unused;
    return !is_pending(SIGCONT);
}

void cplatform_job_control_hold(void) {
    set_blocked(SIGTSTP, SIG_BLOCK);
    /* Pending signals are seen by a thread that has them blocked. */
    set_blocked(SIGCONT, SIG_BLOCK);
    if (is_pending(SIGTSTP)) return;
    comes_true(is_handled, 0);
    pthread_kill(pthread_self(), SIGTSTP);
}

int cplatform_job_stop(void) {
    unsigned count = atomic_load(&continuations_at_stop);
    /* Without a token there was a continuation, after the request to stop or before it. */
    if (has_continued_since(count) || (!is_pending(SIGTSTP) && comes_true(has_continued_since, count))) return 0;
    cplatform_job_control_hold();
    if (sigaction(SIGTSTP, &former_stop, NULL) != 0) return errno;
    set_blocked(SIGTSTP, SIG_UNBLOCK);
    /* Here the process stops, unless it was continued since; or the program's own handler runs. */
    set_blocked(SIGTSTP, SIG_BLOCK);
    int failure = install_stop();
    comes_true(has_continued_since, count);
    return failure;
}

void cplatform_job_control_end(void) {
    sigaction(SIGTSTP, &former_stop, NULL);
    sigaction(SIGCONT, &former_continuation, NULL);
    notified_descriptor = -1;
}
