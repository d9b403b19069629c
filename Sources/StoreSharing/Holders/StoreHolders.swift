import StorePlatform

/// A process, or one connection of it, that has a store open or holds one of its locks.
public struct StoreHolder: Sendable, Equatable {
    /// How the holder uses the store.
    public enum Use: String, Sendable, CaseIterable {
        /// It has the store open as a shared store, and so a lease.
        case lease
        /// It has a connection that may write.
        case writer
        /// It opened the store for reading only.
        case readOnly = "read-only"
        /// It holds the write turn: it is the current writer.
        case writeTurn = "write turn"
        /// It waits in the writer queue.
        case waiting
        /// It is suspended.
        case suspended
        /// It has the database open, as its lock shows; for processes without a row in the table of holders.
        case open
        /// It holds SQLite's write lock.
        case writeLock = "write lock"
        /// It holds one of SQLite's read locks.
        case readLock = "read lock"
    }

    /// The process identifier. If ``isIdentified`` is false, it is the number that the holder has written into the table.
    public let process: Int32
    /// Whether the system shows that this process uses the store: it holds the lock of the row, has one of SQLite's locks or
    /// has the lock file open. Each process that may write the lock file can write any number into its row. So a process
    /// that is not identified must not be ended for its number, which may be that of another one, or one of another pid
    /// namespace.
    public let isIdentified: Bool
    /// The short name of its program; nil where the system does not report it.
    public let command: String?
    public let state: ProcessState
    /// Its row in the table of holders, which is its own while it lives; nil for a process that is known only by its
    /// locks.
    public let row: Int?
    /// The name of the connection; nil for a process that is known only by its locks.
    public let label: String?
    /// When it acquired its row in the table of holders, as time since 1970.
    public let openedAt: Duration?
    public fileprivate(set) var uses: [Use]
    /// How long it has held the write turn.
    public let writingFor: Duration?
    /// How long it has waited for the write turn.
    public let waitingFor: Duration?
    /// How often it held the write turn.
    public let writeCount: UInt64
    /// The total time for which it held the write turn.
    public let writeTime: Duration
    /// The longest time for which it held the write turn.
    public let longestWrite: Duration
    /// The total time for which it waited for the write turn.
    public let waitTime: Duration
}

extension StoreHolder: CustomStringConvertible {
    /// As in `process 4711 (importer, stopped)`, or `a process that says to be 4711`.
    public var description: String {
        if !isIdentified { return "a process that says to be \(process)" }
        let details = [command, state == .unknown ? nil : state.rawValue].compactMap { $0 }
        return "process \(process)" + (details.isEmpty ? "" : " (\(details.joined(separator: ", ")))")
    }
}

extension StoreHolder {
    /// A process that is known only by its locks.
    package init(process: Int32, uses: [Use]) {
        self.process = process
        isIdentified = true
        command = ProcessInspector.commandName(of: process).map(Self.printable)
        state = ProcessInspector.state(of: process)
        row = nil
        label = nil
        openedAt = nil
        self.uses = uses
        writingFor = nil
        waitingFor = nil
        writeCount = 0
        writeTime = .zero
        longestWrite = .zero
        waitTime = .zero
    }

    /// A holder by its row.
    ///
    /// - Parameters:
    ///   - row: The bytes of the row.
    ///   - index: Its place in the table.
    ///   - evidence: What the system shows of the processes that use the store.
    fileprivate init(row: [UInt8], index: Int, isOwner: Bool, isWaiting: Bool, _ evidence: HolderEvidence) {
        func number<T: FixedWidthInteger>(_ offset: Int, _: T.Type = T.self) -> T {
            row.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: T.self) }
        }
        func elapsed(since offset: Int) -> Duration {
            let (now, since) = (MonotonicTime.now, number(offset, UInt64.self))
            return .nanoseconds(Int64(clamping: now >= since ? now - since : 0))
        }
        func total(_ offset: Int) -> Duration { .nanoseconds(Int64(clamping: number(offset, UInt64.self))) }
        let isOurs = number(TableLayout.Row.pidNamespace, UInt64.self) == ProcessInspector.pidNamespace ?? 0
        (process, isIdentified) = evidence.process(
            ofRow: index, saying: number(TableLayout.Row.process), isOfNamespace: isOurs)
        command = isIdentified ? ProcessInspector.commandName(of: process).map(Self.printable) : nil
        state = isIdentified ? ProcessInspector.state(of: process) : .unknown
        self.row = index
        let name = row[TableLayout.Row.label...].prefix { $0 != 0 }
        label = Self.printable(String(decoding: name, as: UTF8.self))
        openedAt = .milliseconds(number(TableLayout.Row.openedAt, Int64.self))
        let roles = HolderRoles(rawValue: number(TableLayout.Row.roles))
        uses = Self.uses(roles, isOwner: isOwner, isWaiting: isWaiting)
        let since = number(TableLayout.Row.writingSince, UInt64.self)
        writingFor = isOwner && since != 0 ? elapsed(since: TableLayout.Row.writingSince) : nil
        waitingFor = isWaiting ? elapsed(since: TableLayout.Row.waitingSince) : nil
        writeCount = number(TableLayout.Row.writeCount)
        writeTime = total(TableLayout.Row.writeTotal)
        longestWrite = total(TableLayout.Row.longestWrite)
        waitTime = total(TableLayout.Row.waitTotal)
    }

    private static func uses(_ roles: HolderRoles, isOwner: Bool, isWaiting: Bool) -> [Use] {
        var uses: [Use] = []
        if roles.contains(.lease) { uses.append(.lease) }
        if roles.contains(.writer) { uses.append(.writer) }
        if roles.contains(.readOnly) { uses.append(.readOnly) }
        if isOwner { uses.append(.writeTurn) }
        if isWaiting { uses.append(.waiting) }
        if roles.contains(.suspended) { uses.append(.suspended) }
        return uses
    }

    /// Text of another process, without characters that a terminal would interpret.
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

/// The processes that have a store open, write or wait, at one moment: from the table of holders in the lock file and
/// from the system's table of locks. It needs no key, changes nothing and does not open the database.
///
/// ```swift
/// for holder in try StoreHolders(of: "/var/lib/app.db") { print(holder, holder.uses) }
/// ```
///
/// A row of the table is valid only while its holder lives. Its number is compared with what the system shows
/// (``StoreHolder/isIdentified``). A process without a row, such as the `sqlcipher` shell, is
/// found by SQLite's locks, where the system reports them. A connection holds no lock before its first read; it is
/// found by having the database open for writing, where this process may see that.
public struct StoreHolders: Sendable, RandomAccessCollection {
    private let holders: [StoreHolder]

    public var startIndex: Int { holders.startIndex }
    public var endIndex: Int { holders.endIndex }
    public subscript(position: Int) -> StoreHolder { holders[position] }

    /// Reads the holders of a store.
    ///
    /// - Parameter path: The database file. Without a lock file beside it, only SQLite's locks are reported.
    /// - Throws: `SystemError` when a file exists and cannot be read.
    public init(of path: String) throws(SystemError) {
        let database = try Files.resolvingLinks(of: path)
        var holders: [StoreHolder] = []
        if Files.exists(database + "-lock") { holders = try TableReader(path: database + "-lock").holders() }
        for (process, uses) in try Self.sqliteLocks(of: database) {
            let rows = holders.indices.filter { holders[$0].process == process && holders[$0].isIdentified }
            if rows.isEmpty { holders.append(StoreHolder(process: process, uses: uses)) }
            for row in rows { holders[row].uses += uses.filter { $0 != .open } }
        }
        let known = Set(holders.filter(\.isIdentified).map(\.process))
        self.holders = holders + Self.unleased(of: database).filter { !known.contains($0.process) }
    }

    /// The other processes that have the database open for writing but not the lock file, so that they know nothing of
    /// leases; as far as this process may see them.
    package static func unleased(of database: String) -> [StoreHolder] {
        func writers() -> Set<Int32> {
            Set(ProcessInspector.openings(of: database).filter { $0.isForWriting == true }.map(\.process))
        }
        var strangers = writers().subtracting([ProcessInspector.currentProcess])
        if !strangers.isEmpty { strangers.subtract(ProcessInspector.openings(of: database + "-lock").map(\.process)) }
        // A process that closed both files in between does not count.
        if !strangers.isEmpty { strangers.formIntersection(writers()) }
        return strangers.sorted().map { StoreHolder(process: $0, uses: [.open]) }
    }

    /// Whether a process holds the lock of a row that the table lacks, as far as the lock file can be read: then the lock file
    /// was cut while the process had the store open, and nothing in it reaches that process.
    ///
    /// A user who may only read the file can lock no row in this way.
    package static func hasLostRow(of database: String) -> Bool {
        (try? TableReader(path: database + "-lock").hasLostRow()) ?? false
    }

    /// The holder of one row of the table; nil when the row is free or the lock file cannot be read.
    static func holder(of number: Int, lockFile path: String) -> StoreHolder? {
        (try? TableReader(path: path).holder(of: number)) ?? nil
    }

    /// The holder of SQLite's write lock, as the system shows it, or else of the write turn.
    public var writer: StoreHolder? {
        first { $0.uses.contains(.writeLock) } ?? first { $0.uses.contains(.writeTurn) }
    }

    /// The processes that hold SQLite's locks, each with what the locks are for.
    private static func sqliteLocks(
        of database: String
    ) throws(SystemError) -> [(process: Int32, uses: [StoreHolder.Use])] {
        var found: [Int32: Set<StoreHolder.Use>] = [:]
        for lock in try SystemLocks.posixLocks(on: database + "-shm") ?? [] {
            var uses: Set<StoreHolder.Use> = []
            if lock.bytes.contains(WALLockByte.write) && lock.kind == .exclusive { uses.insert(.writeLock) }
            if lock.bytes.overlaps(WALLockByte.readMarks) && lock.kind == .shared { uses.insert(.readLock) }
            if lock.bytes.contains(WALLockByte.open) { uses.insert(.open) }
            found[lock.process, default: []].formUnion(uses)
        }
        // The write lock of the other journal modes.
        for lock in try SystemLocks.posixLocks(on: database) ?? [] where lock.bytes.contains(SQLiteLockByte.reserved) {
            if lock.kind == .exclusive { found[lock.process, default: []].insert(.writeLock) }
        }
        return found.sorted { $0.key < $1.key }.map { process, uses in
            (process, StoreHolder.Use.allCases.filter(uses.contains))
        }
    }
}

/// Reads the table of holders by `pread` instead of mapped memory, so that truncation of the file does no harm.
private struct TableReader: ~Copyable {
    private let file: FileDescriptor
    private let evidence: HolderEvidence

    init(path: String) throws(SystemError) {
        evidence = HolderEvidence(lockFile: path)
        // A pipe in its place waits for nobody.
        file = try FileDescriptor(opening: path, .readOnly, followsLinks: false, waitsForWriter: false)
    }

    /// The living holders.
    consuming func holders() throws(SystemError) -> [StoreHolder] {
        guard let header = try header() else { return [] }
        let start = Int(LockByte.mappedBase) + TableLayout.Header.byteCount
        let bytes = try file.read(at: start, byteCount: TableLayout.notices - TableLayout.Header.byteCount)
        var holders: [StoreHolder] = []
        for number in 0..<(bytes.count / TableLayout.Row.byteCount) {
            let row = bytes[(number * TableLayout.Row.byteCount)...].prefix(TableLayout.Row.byteCount)
            if let holder = try holder(number, Array(row), header) { holders.append(holder) }
        }
        return holders
    }

    /// The holder of one row; nil when the row is free.
    consuming func holder(of number: Int) throws(SystemError) -> StoreHolder? {
        guard let header = try header() else { return nil }
        let start = Int(LockByte.mappedBase) + TableLayout.row(number)
        let row = try file.read(at: start, byteCount: TableLayout.Row.byteCount)
        return row.count == TableLayout.Row.byteCount ? try holder(number, row, header) : nil
    }

    /// Whether a row without a process is locked.
    consuming func hasLostRow() throws(SystemError) -> Bool {
        for number in 0..<TableLayout.rowCount {
            let start = Int(LockByte.mappedBase) + TableLayout.row(number)
            let row = try file.read(at: start, byteCount: TableLayout.Row.byteCount)
            let process: Int32 = row.count == TableLayout.Row.byteCount ? Self.number(row, TableLayout.Row.process) : 0
            // Only a process that may write the file can lock it exclusively.
            if process == 0, try file.isLocked(LockByte.row(number), against: .shared) { return true }
        }
        return false
    }

    private func header() throws(SystemError) -> [UInt8]? {
        let header = try file.read(at: Int(LockByte.mappedBase), byteCount: 512)
        guard header.count == 512, Self.number(header, TableLayout.Header.magic) == TableLayout.magic,
            Self.number(header, TableLayout.Header.version) == TableLayout.version
        else { return nil }
        return header
    }

    private func holder(_ number: Int, _ row: [UInt8], _ header: [UInt8]) throws(SystemError) -> StoreHolder? {
        let process: Int32 = Self.number(row, TableLayout.Row.process)
        guard process > 0, try file.isLocked(LockByte.row(number)) else {
            return nil
        }
        let owner = OwnerWord(rawValue: Self.number(header, TableLayout.Header.owner))
        let generation: UInt32 = Self.number(row, TableLayout.Row.generation)
        let waiting: UInt64 = Self.number(header, TableLayout.Header.waiting + number / 64 * 8)
        return StoreHolder(
            row: row, index: number, isOwner: owner.row == number && owner.belongs(to: generation) && !owner.isOffer,
            isWaiting: waiting & 1 << UInt64(number % 64) != 0, evidence)
    }

    private static func number<T: FixedWidthInteger>(_ bytes: [UInt8], _ offset: Int) -> T {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: T.self) }
    }
}
