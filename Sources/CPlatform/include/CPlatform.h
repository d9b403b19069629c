#ifndef CPLATFORM_H
#define CPLATFORM_H

/* What Swift's import of the C library lacks. Every function returns 0 or the errno of its failure, unless it says
   otherwise; none prints, allocates for the caller or keeps state. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "ProcessEvents.h"
#include "SharedMemory.h"
#include "Signals.h"

/* Byte locks that belong to the open file description, not to the process. */
enum cplatform_lock_kind {
    CPLATFORM_UNLOCK = 0,
    CPLATFORM_LOCK_SHARED = 1,
    CPLATFORM_LOCK_EXCLUSIVE = 2,
};

/* Sets or removes a lock on `length` bytes from `start`; never waits (EAGAIN or EACCES when it is taken). */
int cplatform_lock_set(int descriptor, int kind, int64_t start, int64_t length);

/* Asks whether a lock of `kind` could be set; `found` becomes the kind of a lock in its way, or CPLATFORM_UNLOCK. */
int cplatform_lock_probe(int descriptor, int kind, int64_t start, int64_t length, int *found);

/* Begins to write to the medium what of a file is only in memory (sync_file_range), without a commit of the filesystem's
   journal. It may wait for a busy medium. */
int cplatform_writeback_begin(int descriptor);

/* Finds the first position from `offset` on that is in no hole of the file (SEEK_DATA). ENXIO where none follows, EINVAL
   where the filesystem does not know holes. */
int cplatform_next_data(int descriptor, int64_t offset, int64_t *found);

/* Whether no other open file, of any process, stands for the file of `descriptor`: the system grants a write lease only
   then. False where it cannot be told. */
bool cplatform_is_sole_opener(int descriptor);

/* The type number of the filesystem of `path` and, where the system tells it, the type's name (else ""). */
int cplatform_filesystem(const char *path, uint64_t *type, char *name, size_t name_capacity);

/* Splits a device number into the two halves that /proc/self/mountinfo prints. */
void cplatform_device_numbers(dev_t device, unsigned *major_number, unsigned *minor_number);

/* Reads the status and the target of one symbolic link, which nobody can exchange between both. The target ends with a zero.
   Returns EINVAL for what is no link, ENAMETOOLONG where the target does not fit. */
int cplatform_read_link(const char *path, struct stat *found, char *target, size_t capacity);

/* Reads the status and the access control list of one file, which is not opened for reading. No link at the end of the path is
   followed. The list has the form of the system (on Linux that of the attribute system.posix_acl_access) and is `count` bytes
   long: none where the file has no list, or is not a regular file. */
int cplatform_attributes(const char *path, struct stat *found, void *list, size_t capacity, size_t *count);

/* Gives an open file such a list, or none where `count` is 0. Filesystems without such lists are no error. */
int cplatform_acl_apply(int to, const void *list, size_t count);

/* Forbids core dumps and ptrace by processes of the same user (no effect where the system lacks the call). */
int cplatform_forbid_dumps(void);

/* A pipe whose ends, reading and writing, are closed in any program that is started. */
int cplatform_pipe(int ends[2]);

/* Starts a program found by PATH with the given environment (NULL for the caller's), default signals and the two given
   descriptors as standard input and output; of the other descriptors it inherits standard error alone. It leads a process
   group of its own, or stays in that of the caller. On Linux the kernel kills it when the calling thread ends. */
int cplatform_spawn(
    const char *file, char *const argv[], char *const environment[], int input, int output, bool leads_group,
    pid_t *child);

/* Renames a file of one folder into another, only where the new name is not taken (EEXIST). EINVAL, ENOSYS or ENOTSUP where
   the filesystem cannot do that in one step. */
int cplatform_rename_exclusively(int from_folder, const char *from, int to_folder, const char *to);

/* Gives a folder or an empty file that the caller has just created these permissions, from which the umask may have taken
   some. Another user may have put something else in its place: no link is followed, and what has another owner, a second
   name, content or more permissions stays as it is (ESTALE). 0, or the error. */
int cplatform_complete_mode(int folder, const char *name, int is_folder, mode_t mode);

/* Overwrites memory in a way the compiler does not remove. */
void cplatform_wipe(void *bytes, size_t count);

#endif
