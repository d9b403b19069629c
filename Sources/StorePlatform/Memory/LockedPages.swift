#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Memory for secrets that lasts until it is released: locked, excluded from core dumps, between two inaccessible
/// guard pages.
///
/// A child made by `fork` inherits the contents, not the lock.
/// - SeeAlso: <https://man7.org/linux/man-pages/man2/mlock.2.html>
// Safe because: two numbers that never change; the user is responsible for the memory that they describe.
package struct LockedPages: @unchecked Sendable {
    package let start: UnsafeMutableRawPointer
    package let byteCount: Int

    /// Maps and locks `byteCount` bytes, rounded up to whole pages, all zero.
    ///
    /// - Returns: nil where the limit on locked memory (RLIMIT_MEMLOCK) is too low, or the kernel refuses one of the
    ///   protections; nothing stays mapped then.
    package init?(byteCount requested: Int) {
        let pageBytes = sysconf(Int32(_SC_PAGESIZE))
        guard requested > 0, pageBytes > 0, requested <= Int.max - 3 * pageBytes else { return nil }
        let inner = (requested + pageBytes - 1) / pageBytes * pageBytes
        let whole = inner + 2 * pageBytes
        // Inaccessible at first, so that the guards need no second call.
        guard let mapped = mmap(nil, whole, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0), mapped != MAP_FAILED else {
            return nil
        }
        let address = mapped + pageBytes
        guard mprotect(address, inner, PROT_READ | PROT_WRITE) == 0, mlock(address, inner) == 0,
            Self.keepOutOfCoreDumps(address, inner)
        else {
            munmap(mapped, whole)
            return nil
        }
        start = address
        byteCount = inner
    }

    /// Unmaps the pages, guards included. The memory must not be used after that; the caller wipes it before.
    func release() {
        let pageBytes = sysconf(Int32(_SC_PAGESIZE))
        munmap(start - pageBytes, byteCount + 2 * pageBytes)
    }

    private static func keepOutOfCoreDumps(_ address: UnsafeMutableRawPointer, _ byteCount: Int) -> Bool {
        #if canImport(Darwin)
            // There is no such advice, and core dumps are off by default.
            true
        #else
            madvise(address, byteCount, Int32(MADV_DONTDUMP)) == 0
        #endif
    }
}
