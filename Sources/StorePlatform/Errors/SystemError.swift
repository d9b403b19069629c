#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A system call that failed, on which file, and why.
///
/// It prints as `open "/var/lib/app.db-lock": No space left on device (errno 28)`.
public struct SystemError: Error, Hashable, Sendable {
    /// The name of the system call.
    public let call: String
    /// The file of the call, if it has one.
    public let path: String?
    /// The system's error number (errno).
    public let errorNumber: Int32
    /// Further details, if any.
    public let detail: String?

    public init(call: String, path: String?, errorNumber: Int32, detail: String? = nil) {
        self.call = call
        self.path = path
        self.errorNumber = errorNumber
        self.detail = detail
    }

    /// The failure of this thread's last call, from `errno`.
    init(_ call: String, _ path: String?) {
        self.init(call: call, path: path, errorNumber: errno)
    }
}

// Failures that the library detects by itself, with the corresponding error numbers of the system.
extension SystemError {
    /// The process may not use the file in that way.
    package static func permissionDenied(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: EACCES)
    }

    /// There is no such file.
    package static func notFound(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: ENOENT)
    }

    /// The path does not name a regular file.
    package static func notRegular(_ call: String, _ path: String, _ kind: FileKind) -> SystemError {
        kind == .directory
            ? SystemError(call: call, path: path, errorNumber: EISDIR)
            : SystemError(call: call, path: path, errorNumber: EINVAL, detail: "it is no regular file")
    }

    /// The path does not name the file now.
    package static func stale(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: ESTALE)
    }

    /// The name that this process gave to a file or folder is that of another one: somebody who may write in the folder
    /// exchanged them.
    package static func exchanged(_ call: String, _ path: String) -> SystemError {
        SystemError(
            call: call, path: path, errorNumber: ESTALE,
            detail: "something else got its name meanwhile: find out who may write in that folder")
    }

    /// A file with the name of one that the library makes has another content. It is neither written nor given another
    /// mode.
    package static func foreign(_ call: String, _ path: String, _ noun: String) -> SystemError {
        SystemError(
            call: call, path: path, errorNumber: EEXIST,
            detail: "it is no \(noun) of a store: find out what it is, and move it away")
    }

    /// There is no room for another entry.
    package static func full(_ call: String, _ path: String, _ detail: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: ENOSPC, detail: detail)
    }

    /// The file could not be read or written.
    package static func inputOutput(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: EIO)
    }

    /// The data to read is longer than its reader admits.
    static func tooLarge(call: String, path: String?) -> SystemError {
        SystemError(call: call, path: path, errorNumber: EFBIG)
    }
}

extension SystemError {
    /// Whether permissions were missing, or the filesystem is mounted read-only.
    public var isPermission: Bool { [EACCES, EPERM, EROFS].contains(errorNumber) }
    /// Whether the filesystem or a quota is full.
    public var isNoSpace: Bool { [ENOSPC, EDQUOT].contains(errorNumber) }
    /// Whether the filesystem is mounted read-only.
    package var isReadOnlyFilesystem: Bool { errorNumber == EROFS }
    /// Whether this process, or the whole system, has no descriptor left.
    package var isOutOfDescriptors: Bool { [EMFILE, ENFILE].contains(errorNumber) }
    /// Whether this process, or the whole system, has no memory left.
    package var isOutOfMemory: Bool { errorNumber == ENOMEM }
    /// Whether it says what the machine lacks, and nothing about the file.
    package var isShortage: Bool {
        isReadOnlyFilesystem || isOutOfDescriptors || isOutOfMemory || isTooLongForWriting
    }
    /// Whether a file should have got another name.
    package var isRename: Bool { ["rename", "renameat", "renameat2"].contains(call) }
    /// Whether the call may have taken effect although it failed: a failing disk or an unreachable server can lose the
    /// reply. Other errors are returned before the call has any effect.
    package var mayHaveHappened: Bool { [EIO, ESTALE, ETIMEDOUT, EINTR, ENXIO, ENODEV].contains(errorNumber) }
    /// Whether the file, or a folder on the way to it, does not exist.
    public var isNotFound: Bool { [ENOENT, ENOTDIR].contains(errorNumber) }
    /// Whether a name or a path is longer than the filesystem takes.
    package var isNameTooLong: Bool { errorNumber == ENAMETOOLONG }
    /// Whether something else has got the name of what was opened.
    package var isStale: Bool { errorNumber == ESTALE }
    /// Whether there is a symbolic link in the place of a file that is opened through none.
    package var isLink: Bool { errorNumber == ELOOP }
    /// Whether there is a folder in the place of a file.
    package var isDirectory: Bool { errorNumber == EISDIR }
    /// Whether the disk failed.
    package var isInputOutput: Bool { errorNumber == EIO }
    /// Whether a read failed as SQLite takes for a sign of a damaged filesystem.
    /// - SeeAlso: <https://www.sqlite.org/rescode.html#ioerr_corruptfs>
    package var isFailedRead: Bool { [EIO, ERANGE, ENXIO].contains(errorNumber) }
    /// Whether the file is longer than the reader's limit.
    package var isTooLarge: Bool { errorNumber == EFBIG }
    /// Whether a file would have become longer than this process or the filesystem allows.
    package var isTooLongForWriting: Bool { errorNumber == EFBIG && call != "read" }
    /// Whether the reading end of a pipe is closed.
    package var isReaderGone: Bool { errorNumber == EPIPE }
    /// Whether another holder has the lock.
    package var isLocked: Bool { [EAGAIN, EACCES].contains(errorNumber) }
    /// Whether another process keeps the file from being opened by a lease of the system (`fcntl F_SETLEASE`).
    package var isLeased: Bool { errorNumber == EWOULDBLOCK }
    /// Whether a file was not written because it has a second name.
    package var isSecondName: Bool { errorNumber == EMLINK }
    /// Whether the file exists although it must not.
    package var isAlreadyThere: Bool { errorNumber == EEXIST }
}

extension SystemError: CustomStringConvertible {
    /// The system's words for the error number.
    package var reason: String { strerror(errorNumber).map { String(cString: $0) } ?? "unknown error" }

    public var description: String {
        let subject = path.map { "\(call) \"\($0)\"" } ?? call
        return "\(subject): \(reason) (errno \(errorNumber))" + (detail.map { ": \($0)" } ?? "")
    }
}
