import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Information about processes.
package enum ProcessInspector {
    /// The identifier of this process.
    package static var currentProcess: Int32 { getpid() }

    /// The real user of this process.
    package static var currentUser: UInt32 { getuid() }

    /// The effective user of this process.
    package static var effectiveUser: UInt32 { geteuid() }

    /// Whether a process of this number exists in this process's own namespace. The number may have been reused.
    package static func isAlive(_ process: Int32) -> Bool {
        guard process > 0 else { return false }
        return kill(process, 0) == 0 || errno == EPERM
    }

    /// The short name of a process's program, where the system reports it.
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

    /// Forbids core dumps of this process, and reading of its memory by other processes of the same user: a core dump
    /// of an open store contains its key. It cannot be undone during the life of the process.
    package static func disableCoreDumps() throws(SystemError) {
        let failure = cplatform_forbid_dumps()
        guard failure == 0 else { throw SystemError(call: "prctl", path: nil, errorNumber: failure) }
    }

    /// Lets a crash end the process as the system does it, without a backtrace of Swift's runtime. The backtrace prints
    /// parts of the memory, prompts at a terminal, and changes the effect of SIGQUIT. The runtime reads
    /// `SWIFT_BACKTRACE` before any code of the program runs; so its handlers, and all others of these signals, are
    /// removed afterwards.
    package static func disableBacktraces() { cplatform_crash_handlers_remove() }

    /// The value of an environment variable as bytes, or nil when it is not set.
    package static func environmentValue(_ name: String) -> [UInt8]? {
        withEnvironmentValue(name) { Array($0) }
    }

    /// Passes the bytes of an environment variable to a closure, without a copy.
    ///
    /// - Returns: nil where the variable is not set.
    package static func withEnvironmentValue<Result>(
        _ name: String, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result? {
        guard let value = getenv(name) else { return nil }
        return body(UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}

/// The state of a process.
public enum ProcessState: String, Sendable {
    /// It runs, or sleeps.
    case running
    /// It was stopped by a signal or a debugger, and keeps what it holds.
    case stopped
    /// It has ended, and its parent has not waited for it.
    case zombie
    /// There is no such process.
    case gone
    /// It belongs to another pid namespace, or the system does not report its state.
    case unknown
}

extension ProcessInspector {
    /// The state of a process of this pid namespace, from `/proc`.
    package static func state(of process: Int32) -> ProcessState {
        guard let letter = statFields(of: process)?.first else {
            return Files.exists("/proc/self/stat") && !isAlive(process) ? .gone : .unknown
        }
        return switch letter {
        case "T", "t": .stopped
        case "Z", "X", "x": .zombie
        default: .running
        }
    }

    /// When a process started, in clock ticks since the machine started; together with its number this identifies it
    /// uniquely.
    package static func startTicks(of process: Int32) -> UInt64? {
        // The 22nd field of the line, the 20th after the name.
        statFields(of: process).flatMap { $0.count > 19 ? UInt64($0[19]) : nil }
    }

    /// The parent of a process, or the process that replaced its parent.
    static func parent(of process: Int32) -> Int32? {
        statFields(of: process).flatMap { $0.count > 1 ? Int32($0[1]) : nil }
    }

    /// The inode of the pid namespace of this process: process numbers are valid within one.
    package static var pidNamespace: UInt64? { (try? Files.identity("/proc/self/ns/pid"))??.inode }

    /// The fields of `/proc/PID/stat` after the name, which is in parentheses and may contain anything.
    private static func statFields(of process: Int32) -> [Substring]? {
        guard let file = try? FileDescriptor(opening: "/proc/\(process)/stat", .readOnly),
            let bytes = try? file.read(at: 0, byteCount: 4096), let end = bytes.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        return String(decoding: bytes[(end + 1)...], as: UTF8.self).split { $0 == " " || $0 == "\n" }
    }
}

extension ProcessInspector {
    /// An open file of a process.
    package struct Opening: Hashable, Sendable {
        package let process: Int32
        /// The number of the descriptor in that process.
        let descriptor: String

        /// Whether the descriptor permits writing; nil where it is closed, or the system does not show it.
        package var isForWriting: Bool? {
            info.flatMap(ProcessInspector.flags).map { $0 & O_ACCMODE != O_RDONLY }
        }

        /// The ranges of bytes that this open file has locked (F_OFD_SETLK); none where the system does not show them,
        /// as to a user other than root.
        package var lockedRanges: [ClosedRange<Int64>] { info.map(ProcessInspector.locks) ?? [] }

        private var info: [UInt8]? {
            try? Files.contents(
                of: "/proc/\(process)/fdinfo/\(descriptor)", limitBytes: PlatformLimits.descriptorInfoBytes)
        }
    }

    /// The flags with which a descriptor was opened: `flags:\t0100002`, in octal.
    static func flags(inDescriptorInfo text: [UInt8]) -> Int32? {
        let lines = text.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        guard let line = lines.first(where: { $0.hasPrefix("flags:") }),
            let flags = Int64(line.dropFirst(6).drop { $0 == "\t" || $0 == " " }, radix: 8)
        else { return nil }
        return Int32(truncatingIfNeeded: flags)
    }

    /// The ranges that an open file has locked: `lock:  1: OFDLCK ADVISORY  WRITE -1 08:01:131099 16 16`.
    static func locks(inDescriptorInfo text: [UInt8]) -> [ClosedRange<Int64>] {
        text.split(separator: UInt8(ascii: "\n")).compactMap { line in
            let fields = String(decoding: line, as: UTF8.self).split { $0 == " " || $0 == "\t" }
            guard fields.count == 9, fields[0] == "lock:", fields[2] == "OFDLCK", let first = Int64(fields[7]),
                let last = fields[8] == "EOF" ? Int64.max : Int64(fields[8]), first <= last
            else { return nil }
            return first...last
        }
    }

    /// The other processes that have a file open, as far as this one may see them; none where the system has no
    /// `/proc`.
    ///
    /// It finds files that are open without a lock, too.
    package static func others(using path: String) -> [Int32] {
        Set(openings(of: path).map(\.process)).filter { $0 != currentProcess }.sorted()
    }

    /// The descriptors of a file, as far as this process may see them; none where the system has no `/proc`.
    package static func openings(of path: String) -> [Opening] {
        guard let identity = (try? Files.identity(path)) ?? nil else { return [] }
        let name = "/" + Files.name(of: path)
        let processes = ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }
        return processes.flatMap { openings(of: identity, named: name, in: $0) }
    }

    private static func openings(of identity: FileIdentity, named name: String, in process: Int32) -> [Opening] {
        let folder = "/proc/\(process)/fd"
        let numbers = ((try? Files.names(inDirectory: folder)) ?? []).filter { number in
            let link = "\(folder)/\(number)"
            // The name first: reading the status of a file on a dead network mount could block forever.
            return target(of: link)?.hasSuffix(name) == true && (try? Files.identity(link)) == identity
        }
        return numbers.map { Opening(process: process, descriptor: $0) }
    }

    static func target(of link: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

extension ProcessInspector {
    /// Stops a child of this process and all of its descendants, to kill them.
    ///
    /// Each is stopped before its children are looked for: a stopped process starts no other and waits for none, so
    /// that no process number is reused. If the system has no `/proc`, only the child is found.
    ///
    /// - Returns: All of them, the child first.
    static func stopTree(of child: Int32) -> [Int32] {
        var tree = [child]
        kill(child, SIGSTOP)
        while true {
            let found = children(of: Set(tree)).filter { !tree.contains($0) }
            if found.isEmpty { return tree }
            for process in found { kill(process, SIGSTOP) }
            tree += found
        }
    }

    private static func children(of parents: Set<Int32>) -> [Int32] {
        let processes = ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }
        return processes.filter { process in parent(of: process).map(parents.contains) ?? false }
    }
}

/// Detects whether this process was forked after some moment.
///
/// A child shares the parent's open files with their locks, but has none of the parent's threads and POSIX locks. So a
/// database that was opened before the fork must not be used in the child.
package enum ForkWatch {
    /// Begins to count forks.
    package static func begin() { cplatform_fork_watch() }

    /// The number of forks between the first process and this one: one relaxed load.
    @inline(__always)
    package static var count: UInt32 { cplatform_fork_count() }
}
