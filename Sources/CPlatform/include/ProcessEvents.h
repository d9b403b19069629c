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

/* From here on SIGTSTP does not stop the process, but writes 't' to `notify`; SIGCONT writes 'c'. If SIGTSTP is ignored, it
   stays ignored, and ENOTSUP is returned. */
int cplatform_job_control_begin(int notify);

/* Makes this thread the one that stops the process. It is called again for each 'c'. */
void cplatform_job_control_hold(void);

/* Stops the process, as SIGTSTP would have before cplatform_job_control_begin, and returns when it was continued. Returns at
   once if a SIGCONT came after the SIGTSTP. Only the thread that called cplatform_job_control_hold may call it. */
int cplatform_job_stop(void);

/* Gives SIGTSTP and SIGCONT back what they had before. */
void cplatform_job_control_end(void);

#endif
