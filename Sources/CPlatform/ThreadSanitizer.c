/* For ThreadSanitizer alone; other builds have none of it.

   When two threads meet at a Mutex of Swift's Synchronization module, the lock passes from one to the other inside the
   library and the kernel, where ThreadSanitizer does not look: it would report everything that the mutex protects. So
   `make tsan` lets the linker wrap the two slow paths (--wrap), and these tell it what they mean. The quick paths are
   compiled into the caller, and it understands them. */

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define SELF __attribute__((swift_context)) void *mutex
#define LOCK_SLOWLY "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOWLY "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

__attribute__((swiftcall)) void real_lock_slowly(uint32_t self_id, SELF) __asm__("__real_" LOCK_SLOWLY);
__attribute__((swiftcall)) void real_unlock_slowly(SELF) __asm__("__real_" UNLOCK_SLOWLY);
__attribute__((swiftcall)) void lock_slowly(uint32_t self_id, SELF) __asm__("__wrap_" LOCK_SLOWLY);
__attribute__((swiftcall)) void unlock_slowly(SELF) __asm__("__wrap_" UNLOCK_SLOWLY);

__attribute__((swiftcall)) void lock_slowly(uint32_t self_id, SELF) {
    real_lock_slowly(self_id, mutex);
    __tsan_acquire(mutex);
}

__attribute__((swiftcall)) void unlock_slowly(SELF) {
    __tsan_release(mutex);
    real_unlock_slowly(mutex);
}

#endif
#endif

/* A file without any declaration is no C. */
typedef int cplatform_thread_sanitizer_is_optional;
