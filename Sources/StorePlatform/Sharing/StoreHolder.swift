/// A process, or one connection of it, that has a store open or holds a lock of it.
public struct StoreHolder: Sendable, Equatable {
    /// What it holds, or does.
    public enum Use: String, Sendable, CaseIterable {
        /// It has the store open as a shared store, and so a lease.
        case lease
        /// It has a connection that may write.
        case writer
        /// It opened the store for reading alone.
        case readOnly = "read-only"
        /// It has the turn to write.
        case turn
        /// It waits for the turn.
        case waiting
        /// It is suspended.
        case suspended
        /// It has the database open, as its lock tells; for processes without a place in the table of holders.
        case open
        /// It holds SQLite's write lock.
        case writeLock = "write lock"
        /// It holds a lock of SQLite's by which it reads.
        case readLock = "read lock"
    }

    /// The number of the process; it counts in the pid namespace of the process itself.
    public let process: Int32
    /// The short name of its program; nil where the system does not tell.
    public let command: String?
    public let state: ProcessState
    /// Its place in the table of holders, which nobody else has as long as it lives; nil for a process that is known by its
    /// locks alone.
    public let slot: Int?
    /// The name of the connection; nil for a process that is known by its locks alone.
    public let label: String?
    /// When it took its place in the table of holders, as time since 1970.
    public let openedAt: Duration?
    public internal(set) var uses: [Use]
    /// How long it has had the turn to write.
    public let writingFor: Duration?
    /// How long it has waited for the turn to write.
    public let waitingFor: Duration?
    /// How often it had the turn to write.
    public let turnCount: UInt64
    /// How long it had the turn to write, all together.
    public let turnTime: Duration
    /// The longest time for which it had the turn to write.
    public let longestTurn: Duration
    /// How long it waited for the turn to write, all together.
    public let waitTime: Duration
}

extension StoreHolder: CustomStringConvertible {
    /// As in `process 4711 (importer, stopped)`.
    public var description: String {
        let details = [command, state == .unknown ? nil : state.rawValue].compactMap { $0 }
        return "process \(process)" + (details.isEmpty ? "" : " (\(details.joined(separator: ", ")))")
    }
}

extension StoreHolder {
    /// A process that is known by SQLite's locks alone.
    init(process: Int32, uses: [Use]) {
        self.process = process
        command = ProcessInspector.commandName(of: process).map(Self.printable)
        state = ProcessInspector.state(of: process)
        slot = nil
        label = nil
        openedAt = nil
        self.uses = uses
        writingFor = nil
        waitingFor = nil
        turnCount = 0
        turnTime = .zero
        longestTurn = .zero
        waitTime = .zero
    }

    /// A holder by its row.
    ///
    /// - Parameters:
    ///   - row: The bytes of the row.
    ///   - slot: Its place in the table.
    init(row: [UInt8], slot: Int, isOwner: Bool, isWaiting: Bool) {
        func number<T: FixedWidthInteger>(_ offset: Int, _: T.Type = T.self) -> T {
            row.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: T.self) }
        }
        func elapsed(since offset: Int) -> Duration {
            let (now, since) = (MonotonicTime.now, number(offset, UInt64.self))
            return .nanoseconds(Int64(clamping: now >= since ? now - since : 0))
        }
        func total(_ offset: Int) -> Duration { .nanoseconds(Int64(clamping: number(offset, UInt64.self))) }
        process = number(TableLayout.Row.process)
        let isOurs = number(TableLayout.Row.pidNamespace, UInt64.self) == ProcessInspector.pidNamespace ?? 0
        command = isOurs ? ProcessInspector.commandName(of: process).map(Self.printable) : nil
        state = isOurs ? ProcessInspector.state(of: process) : .unknown
        self.slot = slot
        let name = row[TableLayout.Row.label...].prefix { $0 != 0 }
        label = Self.printable(String(decoding: name, as: UTF8.self))
        openedAt = .milliseconds(number(TableLayout.Row.openedAt, Int64.self))
        let roles = HolderRoles(rawValue: number(TableLayout.Row.roles))
        uses = Self.uses(roles, isOwner: isOwner, isWaiting: isWaiting)
        let since = number(TableLayout.Row.turnSince, UInt64.self)
        writingFor = isOwner && since != 0 ? elapsed(since: TableLayout.Row.turnSince) : nil
        waitingFor = isWaiting ? elapsed(since: TableLayout.Row.waitingSince) : nil
        turnCount = number(TableLayout.Row.turnCount)
        turnTime = total(TableLayout.Row.turnTotal)
        longestTurn = total(TableLayout.Row.turnLongest)
        waitTime = total(TableLayout.Row.waitTotal)
    }

    private static func uses(_ roles: HolderRoles, isOwner: Bool, isWaiting: Bool) -> [Use] {
        var uses: [Use] = []
        if roles.contains(.lease) { uses.append(.lease) }
        if roles.contains(.writer) { uses.append(.writer) }
        if roles.contains(.readOnly) { uses.append(.readOnly) }
        if isOwner { uses.append(.turn) }
        if isWaiting { uses.append(.waiting) }
        if roles.contains(.suspended) { uses.append(.suspended) }
        return uses
    }

    /// A text of another process without what a terminal would obey.
    private static func printable(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { scalar -> Unicode.Scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: "?"
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
