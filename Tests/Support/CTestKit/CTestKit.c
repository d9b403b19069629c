#include "CTestKit.h"

#include <string.h>
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
    if (masked_count == 0 || masked_count > count) return 0;
    const uint8_t *end = memory + (count - masked_count + 1);
    /* A debug build takes a minute for what memchr does in a second. One byte of what is looked for betrays nothing. */
    for (const uint8_t *hit = memory; (hit = memchr(hit, masked[0] ^ mask, (size_t)(end - hit))) != NULL; hit++) {
        size_t length = 1;
        while (length < masked_count && (hit[length] ^ mask) == masked[length]) length++;
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
