import FaultShim
import Foundation

extension Actor {
    /// The system's calls of this process, by `FaultShim`. PATTERN names files as `fnmatch` does; KINDS are `open`,
    /// `write`, `sync`, `truncate`, `name`, `unlink`, `read`, `folder` with commas between, or `all` of them but the last two.
    ///
    /// - `count-calls PATTERN KINDS`: counts; `calls` tells how many there were since counting or arming began.
    /// - `fail-call PATTERN KINDS NUMBER once|always EIO|ENOSPC [torn]`: call NUMBER fails, or all from there on.
    /// - `die-at-call PATTERN KINDS NUMBER [torn]`: the process dies there, with `torn` in the middle of a write.
    /// - `stop-at-call PATTERN KINDS NUMBER`: the process stops there.
    /// - `end-faults`.
    /// - `record-calls PATTERN FILE`: writes down in FILE what is changed; see `SystemCallLog`.
    /// - `jump-clock SECONDS`: the wall clock jumps by up to so much at each question.
    /// - `no-file-watch`: the system has no watch of files for this process from now on.
    static let faultCommands: [String: Command] = [
        "count-calls": { _, words in
            fault_arm(words[0], try kinds(words), 0, false, Int32(FAULT_NONE), 0)
            return ""
        },
        "calls": { _, _ in String(fault_count()) },
        "fail-call": { _, words in
            guard words.count > 4, let number = Int(words[2]) else { throw ActorError.badArguments(words) }
            fault_arm(
                words[0], try kinds(words), number, words[3] == "always",
                Int32(words.last == "torn" ? FAULT_TEAR : FAULT_FAIL), words[4] == "ENOSPC" ? ENOSPC : EIO)
            return ""
        },
        "die-at-call": { _, words in
            guard words.count > 2, let number = Int(words[2]) else { throw ActorError.badArguments(words) }
            let action = words.last == "torn" ? FAULT_HALF : FAULT_DIE
            fault_arm(words[0], try kinds(words), number, false, Int32(action), 0)
            return ""
        },
        "stop-at-call": { _, words in
            guard words.count > 2, let number = Int(words[2]) else { throw ActorError.badArguments(words) }
            fault_arm(words[0], try kinds(words), number, false, Int32(FAULT_STOP), 0)
            return ""
        },
        "end-faults": { _, _ in
            fault_disarm()
            return ""
        },
        "record-calls": { _, words in
            guard fault_record(words[0], words[1]) else { throw CocoaError(.fileWriteUnknown) }
            return ""
        },
        "jump-clock": { _, words in
            fault_jump_clock(Int(words[0]) ?? 0)
            return ""
        },
        "no-file-watch": { _, _ in
            fault_set_file_watches(false)
            return ""
        },
    ]

    private static let kindsByName: [String: Int] = [
        "open": FAULT_OPEN, "write": FAULT_WRITE, "sync": FAULT_SYNC, "truncate": FAULT_TRUNCATE, "name": FAULT_NAME,
        "unlink": FAULT_UNLINK, "read": FAULT_READ, "folder": FAULT_FOLDER, "all": FAULT_READ - 1,
    ]

    private static func kinds(_ words: [String]) throws -> UInt32 {
        guard words.count > 1 else { throw ActorError.badArguments(words) }
        return try words[1].split(separator: ",").reduce(0) { all, name in
            guard let kind = kindsByName[String(name)] else { throw ActorError.badArguments(words) }
            return all | UInt32(kind)
        }
    }
}
