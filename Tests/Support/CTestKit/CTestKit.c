#include "CTestKit.h"

#include <unistd.h>

pid_t test_fork(void) { return fork(); }
