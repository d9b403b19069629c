import CipherStore
import Foundation

extension Actor {
    /// Rows: `mark COUNT` commits that many, one by one; `mark-for-ever FILE` until it is killed, with one byte in FILE
    /// for each commit; `fill BYTES` commits one large row; `roll-back` inserts one that is rolled back; `count TEXT`, `total` and `check` read.
    static let markCommands: [String: Command] = [
        "mark": { actor, words in
            for index in 0..<(Int(words[0]) ?? 0) { try actor.mark("\(index)") }
            return ""
        },
        "mark-for-ever": { actor, words in
            let acknowledged = try Acknowledgements(words[0])
            while true {
                try actor.mark("counted")
                acknowledged.add()
            }
        },
        "fill": { actor, words in
            try actor.writer().write { db in
                try db.execute(
                    sql: "INSERT INTO mark (text) VALUES (hex(randomblob(?)))", arguments: [(Int(words[0]) ?? 0) / 2])
            }
            return ""
        },
        "roll-back": { actor, _ in
            try actor.writer().writeWithoutTransaction { db in
                try db.inTransaction {
                    try db.execute(sql: "INSERT INTO mark (text) VALUES ('undone')")
                    return .rollback
                }
                try db.inTransaction(.immediate) { .commit }
            }
            return ""
        },
        "count": { actor, words in
            String(try actor.number("SELECT COUNT(*) FROM mark WHERE text = ?", [words[0]]))
        },
        "total": { actor, _ in String(try actor.number("SELECT COUNT(*) FROM mark")) },
        "check": { actor, _ in
            try actor.writer().read { try String.fetchOne($0, sql: "PRAGMA integrity_check") ?? "" }
        },
    ]

    /// Inserts a row in a transaction of its own.
    func mark(_ text: String) throws {
        try writer().write { db in
            try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, ?)", arguments: [getpid(), text])
        }
    }

    func number(_ sql: String, _ arguments: StatementArguments = []) throws -> Int {
        try writer().read { try Int.fetchOne($0, sql: sql, arguments: arguments) ?? 0 }
    }
}

/// A file that grows by one byte for each thing done. Its content survives the death of the process.
struct Acknowledgements: Sendable {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = Foundation.open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    func add() { write(descriptor, "+", 1) }
}
