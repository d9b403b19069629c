#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Failures that the library finds out by itself, under the numbers that the system would give them.
extension SystemError {
    /// The process may not use the file that way.
    package static func permissionDenied(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: EACCES)
    }

    /// The file could not be read or written.
    package static func inputOutput(_ call: String, _ path: String) -> SystemError {
        SystemError(call: call, path: path, errorNumber: EIO)
    }
}

extension Files {
    /// Whether the process may read a file.
    package static func canRead(file: String) -> Bool { access(file, R_OK) == 0 }
}
