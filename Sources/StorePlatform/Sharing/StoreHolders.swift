import CPlatform

/// Who has a store open, who writes and who waits, at one moment: from the table of holders in the lock file and from
/// the system's table of locks. No key is needed, nothing is changed, and the database is not opened.
///
/// ```swift
/// for holder in try StoreHolders(of: "/var/lib/app.db") { print(holder, holder.uses) }
/// ```
///
/// A row of the table counts only while its holder lives. A process without a row, such as the `sqlcipher` shell, shows by
/// SQLite's locks, where the system tells of them; and by having the database open for writing, where this process may see
/// that: before it reads for the first time, a connection holds no lock.
public struct StoreHolders: Sendable, RandomAccessCollection {
    private let holders: [StoreHolder]

    public var startIndex: Int { holders.startIndex }
    public var endIndex: Int { holders.endIndex }
    public subscript(position: Int) -> StoreHolder { holders[position] }

    /// Looks who holds a store.
    ///
    /// - Parameter path: The database file. Without a lock file beside it, only SQLite's locks tell.
    /// - Throws: ``SystemError`` when a file is there and cannot be read.
    public init(of path: String) throws(SystemError) {
        let database = try Files.resolvingLinks(of: path)
        var holders: [StoreHolder] = []
        if Files.exists(database + "-lock") { holders = try TableReader(path: database + "-lock").holders() }
        for (process, uses) in try Self.sqliteLocks(of: database) {
            let rows = holders.indices.filter { holders[$0].process == process }
            if rows.isEmpty { holders.append(StoreHolder(process: process, uses: uses)) }
            for row in rows { holders[row].uses += uses.filter { $0 != .open } }
        }
        let known = Set(holders.map(\.process))
        self.holders = holders + Self.strangers(of: database).filter { !known.contains($0.process) }
    }

    /// The other processes that have the database open for writing and know nothing of leases, since they do not have the
    /// lock file open: as far as this process may see them.
    package static func strangers(of database: String) -> [StoreHolder] {
        func writers() -> Set<Int32> {
            Set(ProcessInspector.openings(of: database).filter { $0.isForWriting == true }.map(\.process))
        }
        var strangers = writers().subtracting([ProcessInspector.currentProcess])
        if !strangers.isEmpty { strangers.subtract(ProcessInspector.openings(of: database + "-lock").map(\.process)) }
        // Who closed both in between is none.
        if !strangers.isEmpty { strangers.formIntersection(writers()) }
        return strangers.sorted().map { StoreHolder(process: $0, uses: [.open]) }
    }

    /// Who has the turn to write, or SQLite's write lock without a turn.
    public var writer: StoreHolder? {
        first { $0.uses.contains(.turn) } ?? first { $0.uses.contains(.writeLock) }
    }

    /// The processes that hold SQLite's locks, each with what they are for.
    private static func sqliteLocks(
        of database: String
    ) throws(SystemError) -> [(process: Int32, uses: [StoreHolder.Use])] {
        var found: [Int32: Set<StoreHolder.Use>] = [:]
        // https://www.sqlite.org/walformat.html#wal_locks
        for lock in try SystemLocks.posixLocks(on: database + "-shm") ?? [] {
            var uses: Set<StoreHolder.Use> = []
            if lock.bytes.contains(120) && lock.kind == .exclusive { uses.insert(.writeLock) }
            if lock.bytes.overlaps(123...127) && lock.kind == .shared { uses.insert(.readLock) }
            if lock.bytes.contains(128) { uses.insert(.open) }
            found[lock.process, default: []].formUnion(uses)
        }
        // The write lock of other journal modes: RESERVED.
        for lock in try SystemLocks.posixLocks(on: database) ?? [] where lock.bytes.contains((1 << 30) + 1) {
            if lock.kind == .exclusive { found[lock.process, default: []].insert(.writeLock) }
        }
        return found.sorted { $0.key < $1.key }.map { process, uses in
            (process, StoreHolder.Use.allCases.filter(uses.contains))
        }
    }
}

/// Reads the table of holders by way of the file, so that a file which is cut meanwhile does no harm.
struct TableReader: ~Copyable {
    private let file: FileDescriptor

    init(path: String) throws(SystemError) { file = try FileDescriptor(opening: path, .readOnly, followsLinks: false) }

    /// The holders that live.
    consuming func holders() throws(SystemError) -> [StoreHolder] {
        guard let header = try header() else { return [] }
        let start = Int(LockByte.mappedBase) + TableLayout.Header.byteCount
        let bytes = try file.read(at: start, byteCount: TableLayout.byteCount - TableLayout.Header.byteCount)
        var holders: [StoreHolder] = []
        for slot in 0..<(bytes.count / TableLayout.Row.byteCount) {
            let row = bytes[(slot * TableLayout.Row.byteCount)...].prefix(TableLayout.Row.byteCount)
            if let holder = try holder(slot, Array(row), header) { holders.append(holder) }
        }
        return holders
    }

    /// The holder of one slot; nil when nobody lives there.
    consuming func holder(of slot: Int) throws(SystemError) -> StoreHolder? {
        guard let header = try header() else { return nil }
        let start = Int(LockByte.mappedBase) + TableLayout.row(slot)
        let row = try file.read(at: start, byteCount: TableLayout.Row.byteCount)
        return row.count == TableLayout.Row.byteCount ? try holder(slot, row, header) : nil
    }

    private func header() throws(SystemError) -> [UInt8]? {
        let header = try file.read(at: Int(LockByte.mappedBase), byteCount: 512)
        guard header.count == 512, Self.number(header, TableLayout.Header.magic) == TableLayout.magic,
            Self.number(header, TableLayout.Header.version) == TableLayout.version
        else { return nil }
        return header
    }

    private func holder(_ slot: Int, _ row: [UInt8], _ header: [UInt8]) throws(SystemError) -> StoreHolder? {
        let process: Int32 = Self.number(row, TableLayout.Row.process)
        guard process > 0, try SharedTable.isLocked(file, first: LockByte.slotBase + Int64(slot), count: 1) else {
            return nil
        }
        let owner = TurnWord(rawValue: Self.number(header, TableLayout.Header.owner))
        let generation: UInt32 = Self.number(row, TableLayout.Row.generation)
        let waiting: UInt64 = Self.number(header, TableLayout.Header.waiting + slot / 64 * 8)
        return StoreHolder(
            row: row, slot: slot, isOwner: owner.slot == slot && owner.belongs(to: generation) && !owner.isOffer,
            isWaiting: waiting & 1 << UInt64(slot % 64) != 0)
    }

    private static func number<T: FixedWidthInteger>(_ bytes: [UInt8], _ offset: Int) -> T {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: T.self) }
    }
}

extension Turnstile {
    /// Who has the turn; nil when nobody has, when it is this holder, and when it cannot be told.
    package func otherHolder(lockFile path: String) -> StoreHolder? {
        guard let slot = otherOwner else { return nil }
        return (try? TableReader(path: path).holder(of: slot)) ?? nil
    }
}
