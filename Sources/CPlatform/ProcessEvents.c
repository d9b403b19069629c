#define _GNU_SOURCE
#include "ProcessEvents.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

_Atomic unsigned cplatform_forks;

static void count_fork(void) { atomic_fetch_add_explicit(&cplatform_forks, 1, memory_order_relaxed); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

void cplatform_fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

static struct sigaction former_action;
static volatile sig_atomic_t notified_descriptor = -1;

static void notify(int number) {
    (void)number;
    int failure = errno;
    char byte = 0;
    /* A full pipe has a byte in it already. */
    ssize_t written = write(notified_descriptor, &byte, 1);
    (void)written;
    errno = failure;
}

static int install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = notify;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGTSTP, &action, NULL) == 0 ? 0 : errno;
}

int cplatform_job_control_begin(int descriptor) {
    if (sigaction(SIGTSTP, NULL, &former_action) != 0) return errno;
    if (!(former_action.sa_flags & SA_SIGINFO) && former_action.sa_handler == SIG_IGN) return ENOTSUP;
    notified_descriptor = descriptor;
    return install();
}

void cplatform_job_control_listen(void) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
}

int cplatform_job_stop(void) {
    if (sigaction(SIGTSTP, &former_action, NULL) != 0) return errno;
    cplatform_job_control_listen();
    /* To this thread: the process has stopped and gone on again when the call returns. */
    int failure = pthread_kill(pthread_self(), SIGTSTP);
    int installed = install();
    return failure != 0 ? failure : installed;
}

void cplatform_job_control_end(void) {
    sigaction(SIGTSTP, &former_action, NULL);
    notified_descriptor = -1;
}
