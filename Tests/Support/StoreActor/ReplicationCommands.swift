import CipherStore
import Foundation
import StoreBackups

extension Actor {
    /// Replicas, of a store that this process need not have open.
    ///
    /// - `replicate PATH PLACE` ships what is committed, and makes a repository; `replicate-for-ever PATH PLACE` until it is
    ///   killed.
    /// - `mark-timed FILE PREFIX MICROSECONDS` commits rows with a pause after each, until it is killed. FILE gets a line
    ///   `begin TEXT TIME` before each and `end TEXT TIME` after it, with milliseconds since 1970.
    static let replicationCommands: [String: Command] = [
        "replicate": { _, words in
            try StoreReplication(of: words[0], to: BackupRepository(creatingAt: words[1])).once()
            return ""
        },
        "replicate-for-ever": { _, words in
            try StoreReplication(of: words[0], to: BackupRepository(creatingAt: words[1])).run { false }
            return ""
        },
        "mark-timed": { actor, words in
            let log = try TimedLog(words[0])
            var number = 0
            while true {
                let text = "\(words[1])-\(number)"
                log.add("begin \(text)")
                try actor.mark(text)
                log.add("end \(text)")
                number += 1
                usleep(UInt32(words[2]) ?? 0)
            }
        },
    ]
}

/// A file of lines with times, which survives the death of the process.
private struct TimedLog {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = Foundation.open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    func add(_ text: String) {
        let line = "\(text) \(UInt64(Date().timeIntervalSince1970 * 1000))\n"
        write(descriptor, line, line.utf8.count)
    }
}
