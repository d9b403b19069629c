import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit

extension Actor {
    /// Writers and observers of `WakeUpTests`.
    ///
    /// - `wake-write FILE COUNT` commits COUNT small transactions, with one byte in FILE for each. `wake-last` commits one
    ///   that has the time in it, and answers its row.
    /// - `wake-observe FOLDER NAME` observes the last row, and reads the history as a registered reader, from the token on
    ///   that its former life has left in a file of FOLDER. `wake-await ROW` waits until both have come to a row, and
    ///   answers how many microseconds after its commit the observation had it.
    static let wakeUpCommands: [String: Command] = [
        "wake-write": { actor, words in
            let (acknowledged, store) = (try Acknowledgements(words[0]), try actor.writer())
            for number in 0..<(Int(words[1]) ?? 0) {
                try store.write { db in
                    try db.execute(
                        sql: "INSERT INTO mark (process, text) VALUES (?, 'counted')", arguments: [getpid()])
                    if number % 4 == 0 { try db.execute(sql: "UPDATE account SET balance = balance + 1 WHERE id = 1") }
                }
                acknowledged.add()
            }
            return ""
        },
        "wake-last": { actor, _ in
            let row = try actor.writer().write { db in
                try db.execute(
                    sql: "INSERT INTO mark (process, text) VALUES (?, 'timed')",
                    arguments: [Int64(bitPattern: MonotonicTime.now)])
                return db.lastInsertedRowID
            }
            return String(row)
        },
        "wake-observe": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            let observer = try WokenObserver(store, Bank(folder: words[0]), words[1], folder: words[0])
            actor.sleeper = observer
            return try observer.awaitRow(0)
        },
        "wake-await": { actor, words in
            guard let observer = actor.sleeper, let row = Int64(words[0]) else { throw ActorError.nothingIsOpen }
            return try observer.awaitRow(row)
        },
    ]
}

/// An observation of the last row, and a reader of the history that is killed at any moment and continues with its token.
final class WokenObserver: Sendable {
    struct TooLate: Error {
        let row: Int64
        let observed: Int64
        let read: Int64
    }

    private let place: WokenPlace
    private let cancellable: AnyDatabaseCancellable

    init(_ store: SharedStore, _ bank: Bank, _ name: String, folder: String) throws {
        let place = WokenPlace()
        self.place = place
        let reader = try KeptReader(store, bank, name, path: "\(folder)/read-\(name)")
        place.read(reader.row)
        let observation = ValueObservation.tracking { db in
            try Row.fetchOne(db, sql: "SELECT id, process, text FROM mark ORDER BY id DESC LIMIT 1").map { row in
                WokenPlace.Last(row: row[0], time: (row[2] as String) == "timed" ? row[1] : nil)
            } ?? WokenPlace.Last(row: 0, time: nil)
        }
        cancellable = observation.start(
            in: store, scheduling: .async(onQueue: DispatchQueue(label: "woken")),
            onError: { error in
                // The end of the process closes the store.
                if (error as? StoreError)?.code == .storeClosed { return }
                bank.report("the observation of \(name) has ended: \(error)")
            }, onChange: { place.observed($0) })
        Thread.detachNewThread {
            while true {
                place.awaitChange()
                do {
                    try reader.readOn()
                    place.read(reader.row)
                } catch {
                    bank.report("reader \(name): \(error)")
                }
            }
        }
    }

    func awaitRow(_ row: Int64) throws -> String {
        guard let delay = place.awaitRow(row, until: Date() + 60) else {
            throw TooLate(row: row, observed: place.last.0, read: place.last.1)
        }
        return String(delay)
    }
}

/// How far an observer and a reader have come.
// Safe because: what changes is used with the condition's lock alone.
final class WokenPlace: @unchecked Sendable {
    struct Last: Sendable {
        let row: Int64
        /// When it was about to be committed, where that was recorded.
        let time: Int64?
    }

    private let condition = NSCondition()
    private var observedRow: Int64 = -1
    private var readRow: Int64 = -1
    private var delay: Int64 = 0
    private var isChanged = false

    func observed(_ last: Last) {
        let now = Int64(bitPattern: MonotonicTime.now)
        condition.lock()
        if last.row > observedRow { delay = last.time.map { (now - $0) / 1000 } ?? 0 }
        observedRow = last.row
        isChanged = true
        condition.broadcast()
        condition.unlock()
    }

    func read(_ row: Int64) {
        condition.lock()
        readRow = row
        condition.broadcast()
        condition.unlock()
    }

    func awaitChange() {
        condition.lock()
        while !isChanged { condition.wait() }
        isChanged = false
        condition.unlock()
    }

    /// - Returns: After how many microseconds the row was observed; nil when it was not in time.
    func awaitRow(_ row: Int64, until deadline: Date) -> Int64? {
        condition.lock()
        defer { condition.unlock() }
        while observedRow < row || readRow < row {
            if !condition.wait(until: deadline) { return nil }
        }
        return delay
    }

    var last: (Int64, Int64) {
        condition.lock()
        defer { condition.unlock() }
        return (observedRow, readRow)
    }
}

/// A reader of the history that writes down after each page how far it is: one line, `TOKEN ROW UPDATES`.
// Safe because: it is used by the thread that made it, and then by the one that reads.
private final class KeptReader: @unchecked Sendable {
    private static let changesBetweenAcknowledgements = 1_000
    private let store: SharedStore
    private let bank: Bank
    private let name: String
    private let file: FileHandle
    private var token: HistoryToken
    /// The last row whose insertion was read, and the number of updates.
    private(set) var row: Int64
    private var updates: Int64
    private var unacknowledged = 0

    init(_ store: SharedStore, _ bank: Bank, _ name: String, path: String) throws {
        (self.store, self.bank, self.name) = (store, bank, name)
        if !FileManager.default.fileExists(atPath: path) {
            guard FileManager.default.createFile(atPath: path, contents: nil) else {
                throw CocoaError(.fileWriteUnknown)
            }
        }
        guard let file = FileHandle(forUpdatingAtPath: path) else { throw CocoaError(.fileWriteUnknown) }
        self.file = file
        // Of a line that a kill has torn, nothing was read.
        let whole = WokenLine.last(in: try file.readToEnd() ?? Data())
        try file.truncate(atOffset: UInt64(whole.byteCount))
        try file.seekToEnd()
        if let line = whole.line {
            (token, row, updates) = (line.token, line.row, line.updates)
        } else {
            (token, row, updates) = try store.write { db in
                let token = try db.historyToken()
                try db.registerHistoryReader(name, at: token)
                return (
                    token, try Int64.fetchOne(db, sql: "SELECT ifnull(max(id), 0) FROM mark") ?? 0,
                    try Int64.fetchOne(db, sql: "SELECT ifnull(sum(balance), 0) FROM account") ?? 0
                )
            }
            try keep()
        }
    }

    private func keep() throws { try file.write(contentsOf: Data("\(token) \(row) \(updates)\n".utf8)) }

    func readOn() throws {
        while true {
            let page = try store.history(since: token, limit: 500)
            for change in page.transactions.lazy.flatMap(\.changes) { add(change) }
            token = page.token
            try keep()
            unacknowledged += page.transactions.count
            if !page.hasMore { break }
        }
        guard unacknowledged >= Self.changesBetweenAcknowledgements else { return }
        unacknowledged = 0
        try store.write { try $0.acknowledgeHistory(upTo: token, by: name) }
    }

    private func add(_ change: HistoryChange) {
        switch (change.tableName, change.kind) {
        case ("mark", .inserted):
            if change.rowID != row + 1 { bank.report("\(name): row \(change.rowID ?? -1) after \(row)") }
            row = change.rowID ?? row
        case ("account", .updated): updates += 1
        default: bank.report("\(name): \(change.kind) of \(change.tableName)")
        }
    }
}
