#ifndef CTESTKIT_H
#define CTESTKIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* fork(), which Swift does not import everywhere. */
pid_t test_fork(void);

/* Whether the kernel would write a core of this process: 0 or 1, -1 where that cannot be asked. */
int test_dumpable(void);

/* How often bytes stand in memory, which are given each XORed with a mask, so that looking for them puts them nowhere. */
size_t test_count_masked(const uint8_t *memory, size_t count, const uint8_t *masked, size_t masked_count, uint8_t mask);

/* How many times as long a process may take under a sanitizer: 1 without one. */
int test_slowness(void);

#endif
