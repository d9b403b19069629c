#ifndef CTESTKIT_H
#define CTESTKIT_H

#include <sys/types.h>

/* fork(), which Swift does not import everywhere. */
pid_t test_fork(void);

#endif
