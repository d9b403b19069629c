import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Whether several may hold a lock at once.
package enum LockKind: Sendable {
    case shared
    case exclusive

    fileprivate var code: Int32 {
        switch self {
        case .shared: Int32(CPLATFORM_LOCK_SHARED.rawValue)
        case .exclusive: Int32(CPLATFORM_LOCK_EXCLUSIVE.rawValue)
        }
    }
}

// Locks on ranges of bytes, which need not exist, between all threads of all processes.
//
// They belong to the open file description (F_OFD_SETLK), never to a process: the kernel releases them with its last
// descriptor, for whatever reason that is closed, and two descriptors of one process exclude each other like two
// processes.
// https://man7.org/linux/man-pages/man2/fcntl_locking.2.html, "Open file description locks"
extension FileDescriptor {
    /// Locks a range if it is free. An exclusive lock requires a file that is open for writing.
    ///
    /// - Returns: Whether it was free.
    /// - Throws: ``SystemError`` of `open` with `EACCES` when the file is open for reading only.
    package func tryLock(_ bytes: Range<Int64>, _ kind: LockKind) throws(SystemError) -> Bool {
        let failure = cplatform_lock_set(number, kind.code, bytes.lowerBound, Int64(bytes.count))
        if failure == 0 { return true }
        // The kernel's error when the file is open for reading only: report the real reason.
        if failure == EBADF { throw SystemError(call: "open", path: path, errorNumber: EACCES) }
        let error = SystemError(call: "fcntl(F_OFD_SETLK)", path: path, errorNumber: failure)
        if error.isLocked { return false }
        throw error
    }

    /// Unlocks a range that this open file has locked.
    package func unlock(_ bytes: Range<Int64>) throws(SystemError) {
        let failure = cplatform_lock_set(
            number, Int32(CPLATFORM_UNLOCK.rawValue), bytes.lowerBound, Int64(bytes.count))
        guard failure == 0 else { throw SystemError(call: "fcntl(F_OFD_SETLK)", path: path, errorNumber: failure) }
    }

    /// Whether any other open file holds a lock in the range that conflicts with one of this kind. The file may be open
    /// for reading only.
    package func isLocked(_ bytes: Range<Int64>, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        var found: Int32 = 0
        let failure = cplatform_lock_probe(number, kind.code, bytes.lowerBound, Int64(bytes.count), &found)
        guard failure == 0 else { throw SystemError(call: "fcntl(F_OFD_GETLK)", path: path, errorNumber: failure) }
        return found != Int32(CPLATFORM_UNLOCK.rawValue)
    }
}
