#ifndef FAULT_SHIM_H
#define FAULT_SHIM_H

#include <stdbool.h>

/* A layer of system calls between a test's process and the kernel. The program that links it takes the place of the C
   library's open, write, fsync and so on, for itself and for every library that it loads, SQLite's included. Calls on
   files that a pattern names are counted; the one with a chosen number fails, is done by half, stops the process or
   kills it. They can also be recorded, for a power cut to be played back. Linux only; elsewhere nothing is intercepted.

   A program that is not linked with it preloads it as a library (LD_PRELOAD) and is armed by its environment when it
   starts; its own children are not. FAULT_FILES, FAULT_CALLS (names of kinds with commas between), FAULT_NUMBER,
   FAULT_ALWAYS, FAULT_TORN, FAULT_LOST and FAULT_ERRNO are what `fault_arm` takes, FAULT_START_FILES, FAULT_START_CALLS and
   FAULT_START_NUMBER what `fault_begin_with` takes. FAULT_REPORT is a file that gets a line `<number> <kind> <path>` for
   each call that counts. */

/* Kinds of calls, to be added up. */
enum {
    FAULT_OPEN = 1,     /* open, openat */
    FAULT_WRITE = 2,    /* write, pwrite */
    FAULT_SYNC = 4,     /* fsync, fdatasync */
    FAULT_TRUNCATE = 8, /* ftruncate */
    FAULT_NAME = 16,    /* rename, link and those in open folders; the new name counts */
    FAULT_UNLINK = 32,  /* unlink, unlinkat */
    FAULT_READ = 64,    /* read, pread */
    FAULT_FOLDER = 128  /* mkdir, mkdirat */
};

/* What happens to the chosen call. */
enum {
    FAULT_NONE = 0,
    FAULT_FAIL = 1, /* nothing is done, and the call fails with the error given */
    FAULT_TEAR = 2, /* as fail, but half of what a write writes is written */
    FAULT_DIE = 3,  /* the process dies by SIGKILL before the call */
    FAULT_HALF = 4, /* as die, in the middle of a write */
    FAULT_STOP = 5, /* the process stops by SIGSTOP before the call, and goes on with it when it is continued */
    FAULT_LOSE = 6  /* a rename or link is done, and fails all the same; else as fail */
};

/* Chooses call number `first` (from 1; 0 for none) of these kinds on files whose path matches `pattern` (fnmatch). With
   `forever` all later ones share its fate. Counting begins anew. */
void fault_arm(const char *pattern, unsigned calls, long first, bool forever, int action, int error_number);

/* Counting begins with the call number `number` of these kinds on files whose path matches `pattern`, which is the first
   that counts; it is called after `fault_arm`. */
void fault_begin_with(const char *pattern, unsigned calls, long number);

/* Ends all faults. */
void fault_disarm(void);

/* How many calls have matched since they were armed. */
long fault_count(void);

/* Records every call that changes files matching `pattern` in a file of its own, which must not match:
   a line `<call> <inode> <offset> <bytes> <path>[<tab><new path>]`, followed by the bytes of a write and a line end.
   False when that file cannot be made. */
bool fault_record(const char *pattern, const char *log);

/* Lets the wall clock jump to and fro by up to this many seconds, at every question; 0 ends it. */
void fault_jump_clock(long seconds);

/* Whether the system has a watch of files for this process (inotify_init1). */
void fault_set_file_watches(bool exist);

#endif
