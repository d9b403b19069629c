import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What can be said about processes.
package enum ProcessInspector {
    /// The number of this process.
    package static var currentProcess: Int32 { getpid() }

    /// The number of the process that started this one, or 1 when that one is gone.
    package static var parentProcess: Int32 { getppid() }

    /// The number of the user whose process this is.
    package static var currentUser: UInt32 { getuid() }

    /// The number of the user whose rights this process has.
    package static var effectiveUser: UInt32 { geteuid() }

    /// Whether a process of this number exists in this process's own namespace. Its number may be another's by now.
    package static func isAlive(_ process: Int32) -> Bool {
        guard process > 0 else { return false }
        return kill(process, 0) == 0 || errno == EPERM
    }

    /// The short name of a process's program, where the system tells it.
    package static func commandName(of process: Int32) -> String? {
        #if canImport(Darwin)
            var buffer = [CChar](repeating: 0, count: 256)
            guard proc_name(process, &buffer, UInt32(buffer.count)) > 0 else { return nil }
            return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        #else
            guard let file = try? FileDescriptor(opening: "/proc/\(process)/comm", .readOnly),
                let bytes = try? file.read(at: 0, byteCount: 256)
            else { return nil }
            return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        #endif
    }

    /// Forbids core dumps of this process, and reading its memory by others of the same user: a core of an open store
    /// holds its key. There is no way back for the life of the process.
    package static func disableCoreDumps() throws(SystemError) {
        let failure = cplatform_forbid_dumps()
        guard failure == 0 else { throw SystemError(call: "prctl", path: nil, errorNumber: failure) }
    }

    /// Lets a crash end the process as the system does it, without a backtrace of Swift's runtime: that shows parts of the
    /// memory, asks at a terminal what to do, and takes the course of SIGQUIT. The runtime looks at `SWIFT_BACKTRACE` before
    /// any code of the program runs; so its handlers, and all others of these signals, are removed afterwards.
    package static func disableBacktraces() { cplatform_crash_handlers_remove() }

    /// The value of an environment variable as bytes, or nil when it is not set.
    package static func environmentValue(_ name: String) -> [UInt8]? {
        guard let value = getenv(name) else { return nil }
        return UnsafeBufferPointer(start: value, count: strlen(value)).map(UInt8.init(bitPattern:))
    }
}
