import Dispatch
import StorePlatform
import Synchronization

/// A read of a pool that takes longer than ``Configuration/maximumReadAge``.
public struct OldRead: Sendable {
    /// The program's choice.
    public enum Decision: Sendable {
        /// It continues, and is not reported again.
        case `continue`
        /// Its statement is interrupted, and its later statements throw `SQLITE_INTERRUPT`.
        case end
    }

    /// The name of the connection.
    public let connection: String
    /// How long it has taken so far.
    public let age: Duration
    /// The statement that it began last, without the values of its parameters; nil if it has begun none, and for SQL
    /// that may hold a key.
    public let sql: String?
}

extension OldRead: CustomStringConvertible {
    /// A sentence to be logged.
    public var description: String {
        "A read on \(connection) has taken \(age) so far. "
            + (sql.map { "Its last statement: \($0)" } ?? "It has no SQL.")
    }
}

/// One read under way.
final class WatchedRead: Sendable {
    let connection: String
    let start = MonotonicTime.now
    private let latestSQL = Mutex<String?>(nil)

    init(on connection: String) { self.connection = connection }

    /// Called before each statement.
    func note(_ sql: String) { latestSQL.withLock { $0 = sql } }

    var sql: String? {
        latestSQL.withLock { $0 }.flatMap { CipherPragma.mayHoldKey($0) ? nil : $0.trimmingSQL() }
    }

    func age(at now: UInt64) -> UInt64 { now > start ? now - start : 0 }
}

/// Reports the reads of a pool that are too old, and ends them if the program asks for that.
///
/// A timer runs only while there is a read that was not reported, or one to be ended.
///
/// | the read | the watch |
/// |---|---|
/// | is young | waits until it is old |
/// | is old | asks the program once, on a queue of its own |
/// | is to be ended | interrupts it again and again: SQLite forgets an interruption while no statement runs |
/// | has ended | lets the next access of its connection continue, before that begins |
final class ReadWatch: Sendable {
    private struct Entry {
        let read: WatchedRead
        let connection: SerialConnection
        var isReported = false
        /// The error of its later statements, if it is to be ended.
        var ending: DatabaseError?
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var isScheduled = false
    }

    private let limit: UInt64
    private let decide: @Sendable (OldRead) -> OldRead.Decision
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "CipherDatabase.oldReads", qos: .utility)

    /// - Returns: nil if the configuration limits no age.
    init?(_ configuration: Configuration) {
        guard let age = configuration.maximumReadAge else { return nil }
        limit = age.wholeNanoseconds
        let notice = configuration.onNotice
        decide =
            configuration.onOldRead ?? { read in
                notice?(read.description)
                return .continue
            }
    }

    /// Called at the beginning of an access, on its thread.
    func begin(on connection: SerialConnection, named name: String) -> WatchedRead {
        let read = WatchedRead(on: name)
        let mustSchedule = state.withLock { state in
            state.entries[ObjectIdentifier(read)] = Entry(read: read, connection: connection)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule { schedule(after: limit) }
        return read
    }

    /// Called at the end of an access, on its thread.
    func end(_ read: WatchedRead) {
        let entry = state.withLock { $0.entries.removeValue(forKey: ObjectIdentifier(read)) }
        if let entry, entry.ending != nil { entry.connection.withdraw(because: nil) }
    }

    private func schedule(after nanoseconds: UInt64) {
        let time = DispatchTime.now() + .nanoseconds(Int(clamping: nanoseconds))
        queue.asyncAfter(deadline: time) { [weak self] in self?.check() }
    }

    private func check() {
        let now = MonotonicTime.now
        let old = state.withLock { state -> [WatchedRead] in
            var old: [WatchedRead] = []
            for (key, entry) in state.entries {
                if let ending = entry.ending {
                    // With the lock: the access may otherwise end before, and the next one be meant.
                    entry.connection.withdraw(because: ending)
                } else if !entry.isReported, entry.read.age(at: now) >= limit {
                    state.entries[key]?.isReported = true
                    old.append(entry.read)
                }
            }
            return old
        }
        for read in old { report(read, now) }
        let pause = state.withLock { state -> UInt64? in
            let pauses = state.entries.values.compactMap { entry -> UInt64? in
                if entry.ending != nil { return DatabaseLimits.oldReadPause }
                return entry.isReported ? nil : limit - min(limit, entry.read.age(at: now))
            }
            state.isScheduled = !pauses.isEmpty
            return pauses.min()
        }
        if let pause { schedule(after: max(pause, 1_000_000)) }
    }

    private func report(_ read: WatchedRead, _ now: UInt64) {
        let age = Duration.nanoseconds(Int64(clamping: read.age(at: now)))
        guard decide(OldRead(connection: read.connection, age: age, sql: read.sql)) == .end else { return }
        let ending = DatabaseError(
            resultCode: .SQLITE_INTERRUPT,
            message: "the read was ended: it is older than Configuration.maximumReadAge", sql: read.sql)
        state.withLock { state in
            let key = ObjectIdentifier(read)
            guard let entry = state.entries[key] else { return }
            state.entries[key]?.ending = ending
            entry.connection.withdraw(because: ending)
        }
    }
}
