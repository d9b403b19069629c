#ifndef SHARED_MEMORY_H
#define SHARED_MEMORY_H

/* Memory that processes share by mapping a file: atomic words, and waiting until one changes.

   All operations are sequentially consistent: the writer queue rests on "each of two writes its own word, then reads the
   other's" (Dekker), which weaker orders do not give. Addresses must be aligned to the word. */

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t cplatform_load32(const void *word) {
    return __atomic_load_n((const uint32_t *)word, __ATOMIC_SEQ_CST);
}

static inline void cplatform_store32(void *word, uint32_t value) {
    __atomic_store_n((uint32_t *)word, value, __ATOMIC_SEQ_CST);
}

/* Stores a value and returns the former one. */
static inline uint32_t cplatform_exchange32(void *word, uint32_t value) {
    return __atomic_exchange_n((uint32_t *)word, value, __ATOMIC_SEQ_CST);
}

/* Stores a value if the word has the expected one; tells whether it had. */
static inline bool cplatform_replace32(void *word, uint32_t expected, uint32_t value) {
    return __atomic_compare_exchange_n((uint32_t *)word, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline uint64_t cplatform_load64(const void *word) {
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_SEQ_CST);
}

/* Stores a value if the word has the expected one; returns whether it had. */
static inline bool cplatform_replace64(void *word, uint64_t expected, uint64_t value) {
    return __atomic_compare_exchange_n((uint64_t *)word, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline void cplatform_store64(void *word, uint64_t value) {
    __atomic_store_n((uint64_t *)word, value, __ATOMIC_SEQ_CST);
}

/* For figures that others only read: no order is promised. */
static inline void cplatform_store64_relaxed(void *word, uint64_t value) {
    __atomic_store_n((uint64_t *)word, value, __ATOMIC_RELAXED);
}

/* Adds to the word and returns the former value. */
static inline uint64_t cplatform_add64(void *word, uint64_t value) {
    return __atomic_fetch_add((uint64_t *)word, value, __ATOMIC_SEQ_CST);
}

static inline void cplatform_set_bits64(void *word, uint64_t bits) {
    __atomic_fetch_or((uint64_t *)word, bits, __ATOMIC_SEQ_CST);
}

static inline void cplatform_clear_bits64(void *word, uint64_t bits) {
    __atomic_fetch_and((uint64_t *)word, ~bits, __ATOMIC_SEQ_CST);
}

/* Whether any bit of `count` words is set. */
static inline bool cplatform_has_bits64(const void *words, int count) {
    for (int index = 0; index < count; index++) {
        if (cplatform_load64((const uint64_t *)words + index) != 0) return true;
    }
    return false;
}

/* Time since an arbitrary moment, the same for all processes, in nanoseconds; no setting of the clock moves it. */
uint64_t cplatform_monotonic_ns(void);

/* Sleeps while the word has the expected value, until it is woken, a signal comes or the time is over.
   Returns 0, EAGAIN (another value), EINTR, ETIMEDOUT, or ENOSYS where the system has no such call. */
int cplatform_futex_wait(void *word, uint32_t expected, uint64_t timeout_ns);

/* Sleeps on two words, the second of this process alone. EAGAIN: one of them has another value; ENOSYS: the system
   cannot sleep on two words, as Linux before 5.16. */
int cplatform_futex_wait_either(
    void *word, uint32_t expected, void *own, uint32_t own_expected, uint64_t timeout_ns);

/* Wakes all sleepers of a word of this process alone. */
void cplatform_futex_wake_own(void *own);

/* Wakes one sleeper of the word. */
void cplatform_futex_wake(void *word);

/* Wakes all sleepers of the word. */
void cplatform_futex_wake_all(void *word);

/* Adds to the word and returns the former value. */
static inline uint32_t cplatform_add32(void *word, uint32_t value) {
    return __atomic_fetch_add((uint32_t *)word, value, __ATOMIC_SEQ_CST);
}

/* Makes a file at least `length` bytes long, with blocks behind all of them: a write to mapped memory for which the
   disk has no room would end the process by SIGBUS. */
int cplatform_reserve(int descriptor, int64_t length);

/* Maps `length` bytes of a file from `offset`, readable and writable, shared with all who map it. If the file becomes
   shorter, the next access finds zeros, which this process shares with no other one: a handler of SIGBUS is installed with
   the first mapping. */
int cplatform_map(int descriptor, int64_t offset, uint64_t length, void **memory);
void cplatform_unmap(void *memory, uint64_t length);

/* Whether that has happened to a mapping. */
bool cplatform_map_is_lost(void *memory);

/* Gives every other SIGBUS the default action from now on; false where no handler is installed. */
bool cplatform_map_forget_former_action(void);

#endif
