import CPlatform

/// The mapped part of the lock file: the turn, who waits for it, and the table of holders.
///
/// Whatever stands in it, at worst the turnstile does not keep order: slots out of range are no holders, and who holds
/// what is believed only while the slot's byte is locked.
// Safe because: the memory is shared with other processes anyway, and used by atomic words alone.
package final class SharedTable: @unchecked Sendable {
    private let memory: UnsafeMutableRawPointer

    /// Maps the table, which is made when the file has none.
    ///
    /// - Returns: nil when the file holds something else and others use it, or when another process has been making the
    ///   table for too long.
    /// - Throws: ``SystemError`` when the file cannot be extended or mapped.
    init?(of file: borrowing FileDescriptor) throws(SystemError) {
        // Beyond the end of a file mapped memory cannot be touched, and where the disk is full it cannot be written.
        if try file.status().byteCount < TableLayout.fileBytes {
            guard try Self.make(file) else { return nil }
        }
        if try !Self.isSound(file) {
            guard try Self.make(file) else { return nil }
        }
        var address: UnsafeMutableRawPointer?
        let failure = cplatform_map(
            file.number, LockByte.mappedBase, UInt64(TableLayout.byteCount), &address)
        guard failure == 0, let address else {
            throw SystemError(call: "mmap", path: file.path, errorNumber: failure)
        }
        memory = address
    }

    deinit { cplatform_unmap(memory, UInt64(TableLayout.byteCount)) }

    // MARK: Making

    private static func make(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        guard try lockTable(file) else { return false }
        defer { _ = setLock(file, CPLATFORM_UNLOCK, LockByte.table.rawValue, 1) }
        try reserve(file)
        if try isSound(file) { return true }
        // Those who hold slots may have the former content mapped.
        guard try !holdsSlots(file) else { return false }
        // The magic is written last: who finds it finds a complete table.
        try file.write([UInt8](repeating: 0, count: TableLayout.byteCount), at: Int(LockByte.mappedBase))
        try file.write(bytes(of: TableLayout.version), at: Int(LockByte.mappedBase) + TableLayout.Header.version)
        try file.write(bytes(of: TableLayout.magic), at: Int(LockByte.mappedBase) + TableLayout.Header.magic)
        return true
    }

    private static func reserve(_ file: borrowing FileDescriptor) throws(SystemError) {
        let failure = cplatform_reserve(file.number, Int64(TableLayout.fileBytes))
        guard failure == 0 else { throw SystemError(call: "fallocate", path: file.path, errorNumber: failure) }
    }

    /// Waits for the lock of who makes the table, for a bounded time.
    private static func lockTable(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        let deadline = ContinuousClock.now + Limits.tableWait
        while true {
            let failure = setLock(file, CPLATFORM_LOCK_EXCLUSIVE, LockByte.table.rawValue, 1)
            if failure == 0 { return true }
            let error = SystemError(call: "fcntl(F_OFD_SETLK)", path: file.path, errorNumber: failure)
            guard error.isLocked else { throw error }
            if ContinuousClock.now >= deadline { return false }
            Pause.sleep(for: Limits.firstLockPause)
        }
    }

    private static func isSound(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        let header = try file.read(at: Int(LockByte.mappedBase), byteCount: 12)
        return header.starts(with: bytes(of: TableLayout.magic))
            && header.dropFirst(TableLayout.Header.version).elementsEqual(bytes(of: TableLayout.version))
    }

    private static func holdsSlots(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        try isLocked(file, first: LockByte.slotBase, count: LockByte.slotCount)
    }

    private static func bytes(of value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value, Array.init) }

    // MARK: Locks of slots

    /// Whether somebody else holds a lock on a byte of the range.
    static func isLocked(_ file: borrowing FileDescriptor, first: Int64, count: Int64) throws(SystemError) -> Bool {
        var found: Int32 = 0
        let failure = cplatform_lock_probe(
            file.number, Int32(CPLATFORM_LOCK_EXCLUSIVE.rawValue), first, count, &found)
        guard failure == 0 else { throw SystemError(call: "fcntl(F_OFD_GETLK)", path: file.path, errorNumber: failure) }
        return found != Int32(CPLATFORM_UNLOCK.rawValue)
    }

    static func setLock(_ file: borrowing FileDescriptor, _ kind: cplatform_lock_kind, _ first: Int64, _ count: Int64)
        -> Int32
    {
        cplatform_lock_set(file.number, Int32(kind.rawValue), first, count)
    }

    // MARK: The turn

    var owner: TurnWord { TurnWord(rawValue: cplatform_load32(memory + TableLayout.Header.owner)) }

    /// Gives the turn on if it is where it is expected.
    @inline(__always)
    func replaceOwner(_ expected: TurnWord, with word: TurnWord) -> Bool {
        cplatform_replace32(memory + TableLayout.Header.owner, expected.rawValue, word.rawValue)
    }

    /// When the turn was last handed over to one who waited.
    var handedOverAt: UInt64 {
        get { cplatform_load64(memory + TableLayout.Header.handedOverAt) }
        set { cplatform_store64(memory + TableLayout.Header.handedOverAt, newValue) }
    }

    /// The log at the last checkpoint of any process.
    var checkpointed: UInt64 {
        get { cplatform_load64(memory + TableLayout.Header.checkpointed) }
        set { cplatform_store64(memory + TableLayout.Header.checkpointed, newValue) }
    }

    /// Replaces the log at the last checkpoint if it is the expected one.
    func replaceCheckpointed(_ expected: UInt64, with word: UInt64) -> Bool {
        cplatform_replace64(memory + TableLayout.Header.checkpointed, expected, word)
    }

    // MARK: Requests to give the store up

    /// Counts the changes of requests.
    var requestCount: UInt32 { cplatform_load32(memory + TableLayout.Header.requests) }

    /// Whether the request also ends long reads.
    var insists: Bool {
        get { cplatform_load32(memory + TableLayout.Header.insists) != 0 }
        set { cplatform_store32(memory + TableLayout.Header.insists, newValue ? 1 : 0) }
    }

    /// Tells all who sleep that something about a request has changed.
    func ring() {
        _ = cplatform_add32(memory + TableLayout.Header.requests, 1)
        cplatform_futex_wake_all(memory + TableLayout.Header.requests)
    }

    /// Sleeps until a request changes, or something wakes the thread.
    ///
    /// - Returns: False where the system cannot sleep on a word.
    func awaitRing(since count: UInt32, for timeout: Duration) -> Bool {
        let failure = cplatform_futex_wait(
            memory + TableLayout.Header.requests, count, timeout.wholeNanoseconds)
        return failure != ENOSYSNumber.value
    }

    // MARK: Those who wait

    func takeTicket() -> UInt64 { cplatform_add64(memory + TableLayout.Header.nextTicket, 1) }

    @inline(__always)
    var hasWaiters: Bool {
        cplatform_has_bits64(memory + TableLayout.Header.waiting, Int32(TableLayout.Header.waitingWords))
    }

    func isWaiting(_ slot: Int) -> Bool { cplatform_load64(word(of: slot)) & bit(of: slot) != 0 }
    func setWaiting(_ slot: Int) { cplatform_set_bits64(word(of: slot), bit(of: slot)) }
    func clearWaiting(_ slot: Int) { cplatform_clear_bits64(word(of: slot), bit(of: slot)) }

    private func word(of slot: Int) -> UnsafeMutableRawPointer {
        memory + (TableLayout.Header.waiting + slot / 64 * 8)
    }

    private func bit(of slot: Int) -> UInt64 { 1 << UInt64(slot % 64) }

    /// Calls `body` for each slot whose holder waits.
    @inline(__always)
    func forEachWaiter(_ body: (Int) -> Void) {
        for index in 0..<TableLayout.Header.waitingWords {
            var bits = cplatform_load64(memory + (TableLayout.Header.waiting + index * 8))
            while bits != 0 {
                body(index * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
    }

    // MARK: Rows

    func row(_ slot: Int) -> TableRow { TableRow(memory: memory + TableLayout.row(slot)) }
}

/// One row of the table of holders, by its words.
struct TableRow {
    let memory: UnsafeMutableRawPointer

    @inline(__always)
    func load32(_ offset: Int) -> UInt32 { cplatform_load32(memory + offset) }
    @inline(__always)
    func store32(_ offset: Int, _ value: UInt32) { cplatform_store32(memory + offset, value) }
    @inline(__always)
    func load64(_ offset: Int) -> UInt64 { cplatform_load64(memory + offset) }
    @inline(__always)
    func store64(_ offset: Int, _ value: UInt64) { cplatform_store64(memory + offset, value) }
    /// For figures that others only show.
    @inline(__always)
    func storeFigure(_ offset: Int, _ value: UInt64) { cplatform_store64_relaxed(memory + offset, value) }

    var generation: UInt32 { load32(TableLayout.Row.generation) }
    var ticket: UInt64 { load64(TableLayout.Row.ticket) }
    var waitingSince: UInt64 { load64(TableLayout.Row.waitingSince) }
    var wakeWord: UnsafeMutableRawPointer { memory + TableLayout.Row.wake }

    /// Wakes the holder for something that concerns it alone.
    func call() {
        if cplatform_exchange32(wakeWord, WakeWord.called) != WakeWord.called { cplatform_futex_wake(wakeWord) }
    }

    func writeLabel(_ label: String) {
        var bytes = [UInt8](repeating: 0, count: TableLayout.Row.labelBytes)
        var count = 0
        // By characters, so that none is cut in its middle.
        for character in label {
            let encoded = Array(character.utf8)
            guard count + encoded.count <= bytes.count else { break }
            bytes.replaceSubrange(count..<(count + encoded.count), with: encoded)
            count += encoded.count
        }
        for index in stride(from: 0, to: bytes.count, by: 8) {
            let word = bytes[index..<(index + 8)].withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
            store64(TableLayout.Row.label + index, word)
        }
    }
}
