import CipherStore
import Foundation
import TestKit

/// A process that tests drive: one command a line on standard input, one answer a line on standard output.
///
/// Answers begin with `ok` or with `error`, the name of the error's code, and its text.
@main
enum StoreActor {
    static func main() {
        var actor = Actor()
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            guard let command = words.first else { continue }
            do {
                answer("ok \(try actor.run(command, Array(words.dropFirst())))")
            } catch let error as StoreError {
                answer("error \(error.code.name) \(error)")
            } catch let error as DatabaseError {
                answer("error SQLite-\(error.extendedResultCode.rawValue) \(error)")
            } catch {
                answer("error \(type(of: error)) \(error)")
            }
        }
    }
}

/// Writes one line at once: a buffer would keep it back from the test that waits for it.
private func answer(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// The stores that the process has open, and what it does with them.
private struct Actor {
    private var store: SharedStore?
    private var pool: DatabasePool?
    private let coordinator = FileCoordinator()

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("account") { db in
            try db.execute(
                sql: "CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT NOT NULL, balance INTEGER NOT NULL)")
        }
        migrator.registerMigration("marks") { db in
            try db.execute(sql: "CREATE TABLE mark (id INTEGER PRIMARY KEY, process INTEGER, text TEXT)")
            // How often the migration ran: more than once would be an error.
            try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, 'migrated')", arguments: [getpid()])
        }
        return migrator
    }

    mutating func run(_ command: String, _ arguments: [String]) throws -> String {
        switch command {
        case "open":
            store = try SharedStore.open(
                at: arguments[0], unlockedBy: TestKeys.source(arguments[1]), migrator: Self.migrator)
            return store?.storeID.description ?? ""
        case "open-read-only":
            store = try SharedStore.openReadOnly(
                at: arguments[0], unlockedBy: TestKeys.source(arguments[1]), migrator: Self.migrator)
            return store?.storeID.description ?? "nil"
        case "open-pool":
            pool = try openByHand(path: arguments[0], passphrase: arguments[1])
            return ""
        case "mark":
            try mark(count: Int(arguments[0]) ?? 0)
            return ""
        case "hold-write":
            return try holdWrite()
        case "count":
            return String(try number("SELECT COUNT(*) FROM mark WHERE text = ?", [arguments[0]]))
        case "total":
            return String(try number("SELECT COUNT(*) FROM mark"))
        case "check":
            return try writer().read { try String.fetchOne($0, sql: "PRAGMA integrity_check") ?? "" }
        case "coordinate-and-hold":
            try holdTurn(arguments[0], arguments.count > 1 && arguments[1] == "reading")
            return "released"
        case "coordinated-open":
            store = try coordinator.coordinate(writingItemAt: URL(fileURLWithPath: arguments[0])) {
                try SharedStore.open(at: $0, unlockedBy: TestKeys.source(arguments[1]), migrator: Self.migrator)
            }
            return store?.storeID.description ?? ""
        case "become":
            try become(UInt32(arguments[0]))
            return ""
        case "leak-work":
            try LeakWork(arguments).run()
            return ""
        case "checkpoint":
            let result = try writer().checkpoint()
            return "\(result.walFrameCount) \(result.checkpointedFrameCount)"
        case "close":
            try store?.close()
            try pool?.close()
            (store, pool) = (nil, nil)
            return ""
        default:
            return "unknown command"
        }
    }

    /// Opens a pool as users of GRDB do it.
    private func openByHand(path: String, passphrase: String) throws -> DatabasePool {
        var config = Configuration()
        config.busyMode = .timeout(10)
        config.prepareDatabase { db in
            try db.usePassphrase(passphrase)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        let pool = try DatabasePool(path: path, configuration: config)
        try Self.migrator.migrate(pool)
        return pool
    }

    /// Inserts rows in transactions of their own.
    private func mark(count: Int) throws {
        for index in 0..<count {
            try writer().write { db in
                try db.execute(
                    sql: "INSERT INTO mark (process, text) VALUES (?, ?)",
                    arguments: [ProcessInfo.processInfo.processIdentifier, "\(index)"])
            }
        }
    }

    private func number(_ sql: String, _ arguments: StatementArguments = []) throws -> Int {
        try writer().read { try Int.fetchOne($0, sql: sql, arguments: arguments) ?? 0 }
    }

    /// Becomes another user for good, with the group of the same number and no others.
    private func become(_ user: UInt32?) throws {
        guard let user, setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else {
            throw CocoaError(.featureUnsupported)
        }
    }

    /// Holds a write transaction until the next line arrives.
    private func holdWrite() throws -> String {
        try writer().write { db in
            try db.execute(
                sql: "INSERT INTO mark (process, text) VALUES (?, 'held')",
                arguments: [ProcessInfo.processInfo.processIdentifier])
            answer("ok held")
            _ = readLine()
        }
        return "released"
    }

    /// Holds a turn until the next line arrives.
    private func holdTurn(_ path: String, _ isReading: Bool) throws {
        let url = URL(fileURLWithPath: path)
        let hold: (URL) -> Void = { _ in
            answer("ok held")
            _ = readLine()
        }
        if isReading {
            try coordinator.coordinate(readingItemAt: url, byAccessor: hold)
        } else {
            try coordinator.coordinate(writingItemAt: url, byAccessor: hold)
        }
    }

    private func writer() throws -> any DatabaseWriter {
        guard let writer: any DatabaseWriter = store ?? pool else { throw DatabaseError(message: "nothing is open") }
        return writer
    }
}
