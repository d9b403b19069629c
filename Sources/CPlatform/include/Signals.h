#ifndef SIGNALS_H
#define SIGNALS_H

/* Signals of the whole process, for prompts at a terminal, for commands, and for crashes. */

#include <stdbool.h>

/* Catches the signals that would end or stop the process, from begin to end, so that a terminal can be restored first;
   and SIGCONT, after which a terminal must be set again. The end sends the caught signals once more, but no stop that a
   SIGCONT has taken back. No signal is lost, whichever thread the system gives it to. The end returns after the action of
   each signal that this thread does not block. Not for use by two threads at once.

   restarts: whether system calls of the process go on after a signal. A prompt that waits for a line wants its read to
   end; other threads of a program do not. */
int cplatform_signal_watch_begin(bool restarts);

/* A signal that was caught: SIGTSTP where nothing but a stop is asked for, 0 for none. */
int cplatform_signal_watch_caught(void);

/* Whether the process was stopped and went on since the last call. */
bool cplatform_signal_watch_take_continued(void);

void cplatform_signal_watch_end(void);

/* From here on SIGINT, SIGTERM and SIGHUP are remembered and no longer end the process. A signal that the program ignores
   stays ignored, and a system call that one interrupts is restarted. This thread takes them, even if the program was
   started by a thread that blocks all signals, as those of a thread pool do. Returns 0 or an errno. */
int cplatform_interruption_begin(void);

/* From here on SIGINT, SIGTERM and SIGHUP print a text on standard error and end the process with a status, whatever it is
   doing: until cplatform_interruption_begin, or for good, so that cplatform_interruption_begin changes nothing. A signal
   that the program ignores stays ignored. Called once. Returns 0 or an errno. */
int cplatform_interruption_ends_process(const char *text, int status, bool until_begin);

/* Whether one of them has come since the beginning. */
bool cplatform_interruption_is_requested(void);

/* A signal that ends the process at once asks this child to end, too, a negative number its process group; 0 for none. */
void cplatform_interruption_ends_child(int child);

/* Waits until one of them has come, after cplatform_interruption_begin. Called once. Returns 0 or an errno. */
int cplatform_interruption_wait(void);

/* Removes the handlers of crashes and SIGQUIT, so that these end the process at once. The handler of Swift's runtime
   prints a backtrace with parts of the memory, and prompts at a terminal. An ignored signal stays ignored. */
void cplatform_crash_handlers_remove(void);

#endif
