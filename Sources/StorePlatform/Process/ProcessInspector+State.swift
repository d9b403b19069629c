#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What a process is doing.
public enum ProcessState: String, Sendable {
    /// It runs, or sleeps until something happens.
    case running
    /// It was stopped by a signal or a debugger, and keeps what it holds.
    case stopped
    /// It has ended, and its parent has not taken note.
    case zombie
    /// There is no such process.
    case gone
    /// It belongs to another pid namespace, or the system does not tell.
    case unknown
}

extension ProcessInspector {
    /// What a process of this pid namespace is doing, as `/proc` tells it.
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

    /// When a process began, in clock ticks since the machine started; together with its number this names it for ever.
    package static func startTicks(of process: Int32) -> UInt64? {
        // The 22nd field of the line, the 20th behind the name.
        statFields(of: process).flatMap { $0.count > 19 ? UInt64($0[19]) : nil }
    }

    /// The process that started a process, or took its parent's place.
    static func parent(of process: Int32) -> Int32? {
        statFields(of: process).flatMap { $0.count > 1 ? Int32($0[1]) : nil }
    }

    /// The inode of the pid namespace of this process: numbers of processes count within one.
    package static var pidNamespace: UInt64? { (try? Files.identity("/proc/self/ns/pid"))??.inode }

    /// The fields of `/proc/PID/stat` behind the name, which stands in parentheses and may hold anything.
    private static func statFields(of process: Int32) -> [Substring]? {
        guard let file = try? FileDescriptor(opening: "/proc/\(process)/stat", .readOnly),
            let bytes = try? file.read(at: 0, byteCount: 4096), let end = bytes.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        return String(decoding: bytes[(end + 1)...], as: UTF8.self).split { $0 == " " || $0 == "\n" }
    }
}
