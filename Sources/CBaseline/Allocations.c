// Counts allocations by standing before the C allocator: glibc lets a program define malloc and its kin, and keeps its
// own under these names. https://sourceware.org/glibc/manual/latest/html_node/Replacing-malloc.html
#include "CBaseline.h"

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#if defined(__gnu_linux__) && !defined(HAS_SANITIZER)

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *block);

// The executable's own thread-locals are reached without a call, so that not counting costs next to nothing.
static __thread int64_t counted = -1;

static inline void count(void) {
    if (counted >= 0) counted++;
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    count();
    return __libc_calloc(number, bytes);
}

void *realloc(void *block, size_t bytes) {
    count();
    return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = memalign(alignment, bytes);
    return *block == NULL ? 12 /* ENOMEM */ : 0;
}

void free(void *block) { __libc_free(block); }

int allocations_start(void) {
    counted = 0;
    return 1;
}

int64_t allocations_stop(void) {
    int64_t result = counted;
    counted = -1;
    return result;
}

#else

int allocations_start(void) { return 0; }
int64_t allocations_stop(void) { return -1; }

#endif
