#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Openings of files that wait neither for the other end of a pipe nor, without a bound, for a process that has a lease.
package enum RegularFile {
    /// Why a file was not opened.
    package enum Refusal: Hashable, Sendable {
        /// The path names a pipe, a socket or a device.
        case kind
        /// Another process has a lease on the file, and has kept it.
        case lease
    }

    /// Opens a file as `open` does, for a library that opens files by a function of this form. A folder is permitted, as
    /// it is synced.
    ///
    /// - Parameter wait: The longest wait for a process that has a lease on the file.
    /// - Returns: The descriptor, or -1 with `errno` set, and the reason where it is one of this type.
    package static func open(
        _ path: UnsafePointer<CChar>, flags: Int32, mode: Int32, wait: Duration? = nil
    ) -> (number: Int32, refusal: Refusal?) {
        // A device may do something when it is opened.
        var found = stat()
        if stat(path, &found) == 0, isOther(found) { return refused(.kind) }
        let opened = withoutWaiting(wait ?? PlatformLimits.fileLeaseWait) {
            systemOpen(path, flags | O_NONBLOCK | O_NOCTTY, mode_t(truncatingIfNeeded: mode))
        }
        guard opened >= 0 else { return (-1, errno == EWOULDBLOCK ? .lease : nil) }
        guard fstat(opened, &found) == 0, !isOther(found) else {
            close(opened)
            return refused(.kind)
        }
        let status = fcntl(opened, F_GETFL)
        if status >= 0, flags & O_NONBLOCK == 0 { _ = fcntl(opened, F_SETFL, status & ~O_NONBLOCK) }
        return (opened, nil)
    }

    private static func isOther(_ found: stat) -> Bool { FileStatus(found).kind == .other }

    private static func refused(_ refusal: Refusal) -> (number: Int32, refusal: Refusal?) {
        errno = EINVAL
        return (-1, refusal)
    }

    /// Opens with `O_NONBLOCK`, which the block sets: no pipe is waited for. The kernel refuses a file with a lease then
    /// (`EWOULDBLOCK`), and asks its holder to end the lease, which some do at once, as file servers.
    ///
    /// - SeeAlso: <https://man7.org/linux/man-pages/man2/fcntl.2.html>, "Leases"
    static func withoutWaiting(_ wait: Duration = PlatformLimits.fileLeaseWait, _ open: () -> Int32) -> Int32 {
        var polling: Polling?
        while true {
            let opened = retryingInterrupts(open)
            if opened >= 0 || errno != EWOULDBLOCK { return opened }
            if polling == nil { polling = Polling(first: PlatformLimits.fileLeasePause, until: .now + wait) }
            guard polling?.sleep() == true else {
                errno = EWOULDBLOCK
                return -1
            }
        }
    }

    private static func systemOpen(_ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: mode_t) -> Int32 {
        #if canImport(Darwin)
            Darwin.open(path, flags, mode)
        #else
            Glibc.open(path, flags, mode)
        #endif
    }

    /// Opens a device that the caller names, such as that of random numbers.
    package static func openDevice(_ path: UnsafePointer<CChar>, flags: Int32) -> Int32 { systemOpen(path, flags, 0) }

    /// Closes a descriptor that was opened here.
    package static func closeNumber(_ number: Int32) { close(number) }

    /// The identity of an open file.
    package static func identity(of number: Int32) -> FileIdentity? {
        var found = stat()
        return fstat(number, &found) == 0 ? FileStatus(found).identity : nil
    }

    /// Sets the error number that the caller of a function in the form of a system call reads: `EAGAIN` for a lease, `EINVAL`
    /// for a file that is none of the expected kind.
    package static func setErrorNumber(isLease: Bool) { errno = isLease ? EWOULDBLOCK : EINVAL }

    /// Runs a block that leaves the error number as it is.
    package static func keepingErrorNumber(_ body: () -> Void) {
        let number = errno
        body()
        errno = number
    }
}

extension SystemError {
    /// The failure of an opening. A file that another process has a lease on says so.
    static func opening(_ call: String, _ path: String) -> SystemError {
        let number = errno
        return SystemError(
            call: call, path: path, errorNumber: number,
            detail: number == EWOULDBLOCK ? "another process has a lease on the file (fcntl F_SETLEASE)" : nil)
    }
}
