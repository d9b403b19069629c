#include "CTestKit.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

pid_t test_fork(void) { return fork(); }

int test_dumpable(void) {
#ifdef __linux__
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
#else
    return -1;
#endif
}

size_t test_count_masked(const uint8_t *memory, size_t count, const uint8_t *masked, size_t masked_count, uint8_t mask) {
    size_t found = 0;
    for (size_t start = 0; masked_count > 0 && start + masked_count <= count; start++) {
        size_t length = 0;
        while (length < masked_count && (memory[start + length] ^ mask) == masked[length]) length++;
        if (length == masked_count) found++;
    }
    return found;
}

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif

int test_slowness(void) {
#if __has_feature(thread_sanitizer)
    return 6;
#elif __has_feature(address_sanitizer)
    return 3;
#else
    return 1;
#endif
}
