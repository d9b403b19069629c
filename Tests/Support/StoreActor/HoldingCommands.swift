import CipherStore
import Foundation

extension Actor {
    /// Holding something until the next line arrives: `hold-write` a write transaction, `hold-read` a read transaction,
    /// `coordinate-and-hold PATH [reading]` a turn of `FileCoordinator`.
    static let holdingCommands: [String: Command] = [
        "hold-write": { actor, _ in
            try actor.writer().write { db in
                try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, 'held')", arguments: [getpid()])
                waitForNextLine()
            }
            return "released"
        },
        "hold-read": { actor, _ in
            let counts = try actor.writer().read { db in
                let first = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") ?? 0
                waitForNextLine()
                return [first, try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") ?? 0]
            }
            return "\(counts[0]) \(counts[1])"
        },
        "coordinate-and-hold": { actor, words in
            let url = URL(fileURLWithPath: words[0])
            let hold: (URL) -> Void = { _ in waitForNextLine() }
            if words.count > 1 && words[1] == "reading" {
                try actor.coordinator.coordinate(readingItemAt: url, byAccessor: hold)
            } else {
                try actor.coordinator.coordinate(writingItemAt: url, byAccessor: hold)
            }
            return "released"
        },
    ]

    private static func waitForNextLine() {
        StoreActor.answer("ok held")
        _ = readLine()
    }
}
