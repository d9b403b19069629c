#ifndef PROCESS_EVENTS_H
#define PROCESS_EVENTS_H

/* What happens to a process as a whole: forks, and stops by its terminal. */

#include <stdatomic.h>

/* How often this process was made by a fork since the watch began: 0, or 1 in a child and more in its children. */
extern _Atomic unsigned cplatform_forks;
static inline unsigned cplatform_fork_count(void) {
    return atomic_load_explicit(&cplatform_forks, memory_order_relaxed);
}

/* Begins to count forks; once is enough. */
void cplatform_fork_watch(void);

/* From here on SIGTSTP writes a byte to `notify` instead of stopping the process, which then has to be stopped with
   cplatform_job_stop. Where the signal is ignored it stays so, and ENOTSUP is returned. */
int cplatform_job_control_begin(int notify);

/* Lets this thread receive SIGTSTP: a program that was started by a thread that blocks signals has it blocked. */
void cplatform_job_control_listen(void);

/* Lets SIGTSTP take the course that it had before cplatform_job_control_begin, and returns when that is over: with no
   handler of the program's own, when the process was continued. Blocks the signal in no other thread. */
int cplatform_job_stop(void);

/* Gives SIGTSTP back what it had before. */
void cplatform_job_control_end(void);

#endif
