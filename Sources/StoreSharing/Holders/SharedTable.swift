import StorePlatform

/// The mapped part of the lock file: the holder of the write turn, its waiters, and the table of holders.
///
/// The worst effect of wrong content is that the writer queue does not keep order. Rows out of range count as no holder,
/// and an entry is valid only while its row's byte is locked.
package final class SharedTable: Sendable {
    private let mapping: SharedMapping
    /// The memory of `mapping`.
    let words: SharedWords
    typealias Header = TableLayout.Header

    /// Maps the table. Creates it when the file has none.
    ///
    /// - Returns: nil when the file contains something else and others use it, or when another process has been
    ///   creating the table for too long.
    /// - Throws: ``SystemError`` when the file cannot be extended or mapped.
    init?(of file: borrowing FileDescriptor) throws(SystemError) {
        // Access to mapped memory after the end of the file is a SIGBUS, and so is a write where the disk is full.
        if try file.status().byteCount < TableLayout.fileBytes {
            guard try Self.make(file) else { return nil }
        }
        if try !Self.isSound(file) {
            guard try Self.make(file) else { return nil }
        }
        mapping = try SharedMapping(file, from: LockByte.mappedBase, byteCount: TableLayout.byteCount)
        words = mapping.words
    }

    /// Whether another program has truncated the file, so that this process shares the table with no other one.
    var isLost: Bool { mapping.isLost }

    // MARK: Making

    private static func make(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        guard try lockTable(file) else { return false }
        defer { try? file.unlock(LockByte.table.range) }
        if try !isSound(file) {
            try file.requireNoSecondName()
            try LockFile.requireOwn(file)
        }
        try file.reserve(byteCount: TableLayout.fileBytes)
        if try isSound(file) { return true }
        // Holders of rows may have the former content mapped.
        guard try !file.isLocked(LockByte.rows) else { return false }
        // The magic first, and on the disk: it shows after a kill or a power failure whose file this is. The version last: a
        // process that finds both finds a complete table.
        try file.write(bytes(of: TableLayout.magic), at: Int(LockByte.mappedBase) + Header.magic)
        let rest = [UInt8](repeating: 0, count: TableLayout.byteCount - Header.version)
        try file.write(rest, at: Int(LockByte.mappedBase) + Header.version)
        try file.synchronizeContent()
        try file.write(bytes(of: TableLayout.version), at: Int(LockByte.mappedBase) + Header.version)
        return true
    }

    /// Waits a bounded time for the lock of the process that creates the table.
    private static func lockTable(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        var polling = Polling(first: SharingLimits.firstLockPause, until: .now + SharingLimits.tableWait)
        while true {
            if try file.tryLock(LockByte.table.range, .exclusive) { return true }
            guard polling.sleep() else { return false }
        }
    }

    private static func isSound(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        let header = try file.read(at: Int(LockByte.mappedBase), byteCount: 12)
        return header.starts(with: bytes(of: TableLayout.magic))
            && header.dropFirst(Header.version).elementsEqual(bytes(of: TableLayout.version))
    }

    private static func bytes(of value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value, Array.init) }

    // MARK: The write turn

    var owner: OwnerWord { OwnerWord(rawValue: words.load32(Header.owner)) }

    /// Replaces the owner of the write turn if it is the expected one.
    @inline(__always)
    func replaceOwner(_ expected: OwnerWord, with word: OwnerWord) -> Bool {
        words.replace32(Header.owner, expected.rawValue, with: word.rawValue)
    }

    /// When the write turn was last handed over to a waiting writer.
    var handedOverAt: UInt64 {
        get { words.load64(Header.handedOverAt) }
        set { words.store64(Header.handedOverAt, newValue) }
    }

    /// The WAL at the last checkpoint of any process.
    var checkpointed: UInt64 {
        get { words.load64(Header.checkpointed) }
        set { words.store64(Header.checkpointed, newValue) }
    }

    /// Replaces the WAL at the last checkpoint if it is the expected one.
    func replaceCheckpointed(_ expected: UInt64, with word: UInt64) -> Bool {
        words.replace64(Header.checkpointed, expected, with: word)
    }

    // MARK: Requests to yield the store

    /// Counts the changes of requests.
    var requestCount: UInt32 { words.load32(Header.requests) }

    /// Whether the request also ends long reads.
    var insists: Bool {
        get { words.load32(Header.insists) != 0 }
        set { words.store32(Header.insists, newValue ? 1 : 0) }
    }

    /// Wakes all sleepers, because a request has changed.
    func notify() {
        words.add32(Header.requests, 1)
        words.wakeAll(Header.requests)
    }

    /// Sleeps until a request changes, `end` is set or something wakes the thread.
    ///
    /// - Returns: False where the system has no wait on a memory word.
    func awaitNotification(since count: UInt32, until end: SleepEnd, for timeout: Duration) -> Bool {
        let nanoseconds = timeout.wholeNanoseconds
        if words.sleep(on: Header.requests, while: count, until: end, forNanoseconds: nanoseconds) { return true }
        return words.sleep(on: Header.requests, while: count, forNanoseconds: nanoseconds)
    }

    // MARK: Waiting writers

    func takeTicket() -> UInt64 { words.add64(Header.nextTicket, 1) }

    @inline(__always)
    var hasWaiters: Bool { words.hasBits64(Header.waiting, words: Header.waitingWords) }

    func isWaiting(_ row: Int) -> Bool { words.load64(word(of: row)) & bit(of: row) != 0 }
    func setWaiting(_ row: Int) { words.setBits64(word(of: row), bit(of: row)) }
    func clearWaiting(_ row: Int) { words.clearBits64(word(of: row), bit(of: row)) }

    private func word(of row: Int) -> Int { Header.waiting + row / 64 * 8 }
    func bit(of row: Int) -> UInt64 { 1 << UInt64(row % 64) }

    /// Calls `body` for each row whose holder waits.
    @inline(__always)
    func forEachWaiter(_ body: (Int) -> Void) {
        for index in 0..<Header.waitingWords {
            var bits = words.load64(Header.waiting + index * 8)
            while bits != 0 {
                body(index * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
    }

    // MARK: Rows

    func row(_ row: Int) -> TableRow { TableRow(words: words.advanced(by: TableLayout.row(row))) }
}

/// One row of the table of holders, by its words.
struct TableRow {
    let words: SharedWords
    private typealias Row = TableLayout.Row

    var generation: UInt32 { words.load32(Row.generation) }
    var ticket: UInt64 { words.load64(Row.ticket) }
    var waitingSince: UInt64 { words.load64(Row.waitingSince) }

    /// Wakes the holder if it sleeps until the write turn is free.
    ///
    /// - Returns: Whether it did.
    func prepareNotification() -> Bool { words.replace32(Row.wake, WakeWord.armed, with: WakeWord.notified) }

    /// Wakes the thread that sleeps on the row.
    func wake() { words.wake(Row.wake) }

    /// Wakes the holder for an event that concerns only it.
    func call() {
        if words.exchange32(Row.wake, WakeWord.called) != WakeWord.called { wake() }
    }

    func writeLabel(_ label: String) {
        var bytes = [UInt8](repeating: 0, count: Row.labelBytes)
        var count = 0
        // By characters, so that none is split.
        for character in label {
            let encoded = Array(character.utf8)
            guard count + encoded.count <= bytes.count else { break }
            bytes.replaceSubrange(count..<(count + encoded.count), with: encoded)
            count += encoded.count
        }
        for index in stride(from: 0, to: bytes.count, by: 8) {
            let word = bytes[index..<(index + 8)].withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
            words.store64(Row.label + index, word)
        }
    }
}
