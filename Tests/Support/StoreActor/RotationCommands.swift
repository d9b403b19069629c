import CSQLCipher
import CipherStore
import Foundation
import KeyRotation
import Synchronization
import TestKit

extension Actor {
    /// Rotations, and work that goes on beside them.
    ///
    /// - `rotate [AIM] [OPTION...]`: AIM is `data-key`, `compromised` or `key:KEY`; options are `give-up:SECONDS`,
    ///   `end:SECONDS`, `log:BYTES`, `throttle:BYTES-A-SECOND`, `drop`, `proof:KEY` for the key that a secret manager gives,
    ///   `proof-at:FILE` where it takes its time. Answers the epochs, the longest pause in ms, rounds and attempts.
    /// - `rotate-for-ever`: one after another, until it is killed. One that finds the store in use is begun again.
    /// - `load-write FILE`, `load-read`: begin to write rows, or to read sums, on a thread; FILE gets a byte for each
    ///   commit. `load-end` answers how often, how many failed, the longest in ms, and the first failure.
    /// - `open-direct PATH KEY`, `key-add KEY`: a store without slots, and another slot.
    /// - `stock PATH`: an idle connection of plain C by the store's revealed key, in place of the store.
    /// - `stock-key`: takes the revealed key in place of the store; `stock-write PATH TEXT [emptying]` opens such a
    ///   connection with it, inserts a row and closes; with `emptying` the log is there and empty then.
    /// - `stock-open PATH`: such a connection, which has not read yet; `stock-insert TEXT` inserts a row with it.
    ///   `stock-hold PATH` begins a write transaction on such a connection, which `stock-close` ends.
    static let rotationCommands: [String: Command] = [
        "rotate": { actor, words in
            let report = try actor.rotation(words).run()
            return "\(report.fromEpoch) \(report.toEpoch) \(report.longestPause.milliseconds) \(report.rounds) "
                + "\(report.attempts)"
        },
        "rotate-for-ever": { actor, _ in
            while true {
                do {
                    try actor.rotation([]).run()
                } catch let error as StoreError where error.code == .storeInUse {
                    // Three attempts each met a connection that cannot be asked to pause.
                    continue
                }
            }
        },
        "load-write": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            actor.load = BankLoad(store, acknowledging: try Acknowledgements(words[0]))
            return ""
        },
        "load-read": { actor, _ in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            actor.load = BankLoad(store, acknowledging: nil)
            return ""
        },
        "load-end": { actor, _ in actor.load?.end() ?? "" },
        "open-direct": { actor, words in
            var config = Configuration()
            config.keyScheme = .direct
            return try actor.open(words[0], words[1], config)
        },
        "key-add": { actor, words in
            String(try actor.store?.keys.add(TestKeys.source(words[0]), derivation: TestKeys.cheap).number ?? 0)
        },
        "stock": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            let connection = try StockConnection(words[0], keyspec: store.keys.reveal().withKeyspec { Array($0) })
            try store.close()
            actor.store = nil
            actor.stock = connection
            return ""
        },
        "stock-key": { actor, _ in
            actor.stockKeyspec = try actor.store?.keys.reveal().withKeyspec { Array($0) } ?? []
            try actor.store?.close()
            actor.store = nil
            return ""
        },
        "stock-write": { actor, words in
            let connection = try StockConnection(words[0], keyspec: actor.stockKeyspec)
            try connection.insert(words[1])
            if words.last == "emptying" { try connection.emptyLog() }
            return ""
        },
        "stock-open": { actor, words in
            actor.stock = try StockConnection(unread: words[0], keyspec: actor.stockKeyspec)
            return ""
        },
        "stock-insert": { actor, words in
            try actor.stock?.insert(words[0])
            return ""
        },
        "stock-hold": { actor, words in
            actor.stock = try StockConnection(words[0], keyspec: actor.stockKeyspec)
            try actor.stock?.begin()
            return ""
        },
        "stock-close": { actor, _ in
            actor.stock = nil
            return ""
        },
    ]

    private func rotation(_ words: [String]) throws -> KeyRotation {
        guard let store else { throw ActorError.nothingIsOpen }
        var options = KeyRotation.Options()
        options.checksIntegrity = false
        for word in words {
            let parts = word.split(separator: ":").map(String.init)
            let number = parts.count > 1 ? Double(parts[1]) : nil
            switch parts[0] {
            case "data-key": options.mode = .newDataKey
            case "compromised": options.mode = .compromised(dropsOtherSlots: words.contains("drop"), alsoKeeping: [])
            case "key": options.mode = .newKey(TestKeys.source(parts[1]))
            case "give-up": options.longReads = .giveUp(after: .seconds(number ?? 0))
            case "end": options.longReads = .end(after: .seconds(number ?? 0))
            case "log": options.walLimitBytes = Int(number ?? 0)
            case "throttle": options.throttleBytesPerSecond = Int(number ?? 0)
            case "proof": options.provesNewKey = Self.manager(parts[1], words)
            case "proof-at": break
            case "drop": break
            default: throw ActorError.badArguments(words)
            }
        }
        return KeyRotation(store, options: options)
    }

    /// A secret manager that gives a passphrase, in its own time.
    private static func manager(_ key: String, _ words: [String]) -> KeySource {
        let place = words.first { $0.hasPrefix("proof-at:") }.map { StandingPlace(String($0.dropFirst(9))) }
        return .custom("manager") {
            place?.stand()
            return try Passphrase(key)
        }
    }
}

/// Accesses of a store, one after another on a thread of their own, until they are ended.
///
/// A writer moves money between accounts, as the bank does, and inserts a numbered row with each transfer; a reader asks
/// for sums.
final class BankLoad: Sendable {
    private struct Outcome {
        var accesses = 0
        var failures = 0
        var firstFailure = ""
        var longest: Duration = .zero
    }

    private let store: SharedStore
    private let acknowledged: Acknowledgements?
    private let stopped = Flag()
    private let done = DispatchSemaphore(value: 0)
    private let outcome = Mutex(Outcome())

    init(_ store: SharedStore, acknowledging acknowledged: Acknowledgements?) {
        self.store = store
        self.acknowledged = acknowledged
        Thread.detachNewThread { [self] in
            var number = 0
            while !stopped.isSet {
                let start = ContinuousClock.now
                do {
                    if acknowledged == nil { try read() } else { try write(number) }
                    number += 1
                    acknowledged?.add()
                    note(.now - start, nil)
                } catch {
                    note(.now - start, error)
                    // An error that stays must not fill the test with itself.
                    usleep(1000)
                }
            }
            done.signal()
        }
    }

    private func note(_ time: Duration, _ error: (any Error)?) {
        outcome.withLock { outcome in
            outcome.longest = max(outcome.longest, time)
            guard let error else { return outcome.accesses += 1 }
            outcome.failures += 1
            if outcome.firstFailure.isEmpty { outcome.firstFailure = "\(error)" }
        }
    }

    private func write(_ number: Int) throws {
        try store.write { db in
            let (source, target) = (number % Bank.accounts + 1, number * 7 % Bank.accounts + 1)
            try db.execute(sql: "UPDATE account SET balance = balance - 1 WHERE id = ?", arguments: [source])
            try db.execute(sql: "UPDATE account SET balance = balance + 1 WHERE id = ?", arguments: [target])
            try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, 'busy')", arguments: [getpid()])
        }
    }

    private func read() throws {
        let sum = try store.read { try Int.fetchOne($0, sql: "SELECT SUM(balance) FROM account") }
        if sum != Bank.total { throw DatabaseError(message: "a sum of \(sum ?? -1)") }
    }

    func end() -> String {
        stopped.set()
        done.wait()
        return outcome.withLock {
            "\($0.accesses) \($0.failures) \($0.longest.milliseconds) \($0.firstFailure)"
        }
    }
}

/// A connection that knows nothing of leases.
final class StockConnection {
    private var handle: OpaquePointer?

    convenience init(_ path: String, keyspec: [UInt8]) throws {
        try self.init(unread: path, keyspec: keyspec)
        try check(sqlite3_exec(handle, "SELECT COUNT(*) FROM mark", nil, nil, nil))
    }

    /// A connection that has its key, and has read nothing: it holds no lock.
    init(unread path: String, keyspec: [UInt8]) throws {
        try check(sqlite3_open(path, &handle))
        try check(sqlite3_key_v2(handle, "main", keyspec, Int32(keyspec.count)))
        try check(sqlite3_exec(handle, "PRAGMA cipher_plaintext_header_size = 32", nil, nil, nil))
    }

    /// Begins a write transaction, which ends with the connection.
    func begin() throws { try check(sqlite3_exec(handle, "BEGIN IMMEDIATE", nil, nil, nil)) }

    func insert(_ text: String) throws {
        try check(sqlite3_exec(handle, "INSERT INTO mark (process, text) VALUES (0, '\(text)')", nil, nil, nil))
    }

    /// Copies the log into the database, and begins it anew without frames; it stays when the connection is closed.
    func emptyLog() throws {
        var isPersistent: Int32 = 1
        try check(sqlite3_file_control(handle, "main", SQLITE_FCNTL_PERSIST_WAL, &isPersistent))
        try check(sqlite3_exec(handle, "PRAGMA wal_checkpoint(TRUNCATE)", nil, nil, nil))
    }

    private func check(_ code: Int32) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    deinit { sqlite3_close_v2(handle) }
}

extension Duration {
    /// Whole milliseconds.
    var milliseconds: Int { Int(self / .milliseconds(1)) }
}
