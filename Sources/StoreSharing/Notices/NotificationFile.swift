import StorePlatform
import Synchronization

/// The layout of `<database>-notify`, in which processes notify each other by names (`Docs/Formats/NotifyFile.md`
/// tabulates it). Numbers are in the machine's byte order.
package enum NotificationLayout {
    /// The eight bytes `CSNOTIFY`.
    static let magic: UInt64 = UInt64(littleEndian: 0x5946_4954_4f4e_5343)
    static let version: UInt32 = 1

    enum Header {
        /// u64; written first when the table is made.
        static let magic = 0
        /// u32; written last.
        static let version = 8
        static let byteCount = 4096
    }

    /// One name.
    package enum Entry {
        /// u64; the lower half of the hash of the name. It is written last: 0 where the entry is not used.
        static let low = 0
        /// u64; the upper half of the hash.
        static let high = 8
        /// u32; incremented by each post. Observers sleep on this word.
        package static let posts = 16
        static let byteCount = 32
    }

    static let entryCount = 1024
    static let byteCount = Header.byteCount + entryCount * Entry.byteCount

    /// The byte that a process locks while it makes the table or adds a name.
    static let makingByte: Int64 = 16
    /// The byte that each observation locks, shared.
    static let observersByte: Int64 = 17

    static func entry(_ index: Int) -> Int { Header.byteCount + index * Entry.byteCount }
}

/// The hash of a name: FNV-1a with 128 bits. Its lower half is never 0.
/// - SeeAlso: <http://www.isthe.com/chongo/tech/comp/fnv/>
package struct NotificationName: Hashable, Sendable {
    package let low: UInt64
    package let high: UInt64

    package init(_ name: String) {
        var hash: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        for byte in name.utf8 {
            hash ^= UInt128(byte)
            hash = hash &* 0x0000_0000_0100_0000_0000_0000_0000_013b
        }
        low = max(1, UInt64(truncatingIfNeeded: hash))
        high = UInt64(truncatingIfNeeded: hash >> 64)
    }
}

/// The file `<database>-notify`, open and mapped.
package final class NotificationFile: Sendable {
    private let path: String
    private let identity: FileIdentity
    private let file: Mutex<FileDescriptor?>
    private let mapping: SharedMapping
    private var words: SharedWords { mapping.words }
    private typealias Header = NotificationLayout.Header
    private typealias Entry = NotificationLayout.Entry

    /// Opens the file.
    ///
    /// - Returns: nil where there is none: nobody has ever observed anything.
    /// - Throws: ``SystemError`` when it cannot be opened for writing.
    package static func open(_ paths: StorePaths) throws(SystemError) -> NotificationFile? {
        do throws(SystemError) {
            return try NotificationFile(paths)
        } catch {
            if error.isNotFound { return nil }
            throw error
        }
    }

    /// Opens the file for an observation, and makes it where there is none.
    package static func make(_ paths: StorePaths) throws(SystemError) -> NotificationFile {
        if let file = try open(paths) { return file }
        try AtomicFile.createEmpty(at: paths.notifications, likeFile: paths.database)
        return try NotificationFile(paths)
    }

    private init(_ paths: StorePaths) throws(SystemError) {
        path = paths.notifications
        let file = try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        try FileAccess.requireOwn(file.status(), path, beside: paths.database)
        try Self.prepare(file)
        identity = try file.status().identity
        mapping = try SharedMapping(file, from: 0, byteCount: NotificationLayout.byteCount)
        self.file = Mutex(consume file)
    }

    /// Makes the table in a file that has none, unless an observer exists.
    private static func prepare(_ file: borrowing FileDescriptor) throws(SystemError) {
        if try isSound(file) { return }
        try lock(file, NotificationLayout.makingByte, .exclusive)
        defer { try? file.unlock(range(NotificationLayout.makingByte)) }
        if try isSound(file) { return }
        guard try !file.isLocked(range(NotificationLayout.observersByte)) else {
            throw SystemError.stale("mmap", file.path)
        }
        try file.requireNoSecondName()
        try requireOwn(file)
        try file.reserve(byteCount: NotificationLayout.byteCount)
        // As for the table of holders: the magic first, and on the disk.
        try file.write(withUnsafeBytes(of: NotificationLayout.magic, Array.init), at: Header.magic)
        try file.write([UInt8](repeating: 0, count: NotificationLayout.byteCount - Header.version), at: Header.version)
        try file.synchronizeContent()
        try file.write(withUnsafeBytes(of: NotificationLayout.version, Array.init), at: Header.version)
    }

    private static func isSound(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        guard try file.status().byteCount >= NotificationLayout.byteCount else { return false }
        let header = try file.read(at: 0, byteCount: 12)
        return header.starts(with: withUnsafeBytes(of: NotificationLayout.magic, Array.init))
            && header.dropFirst(Header.version).elementsEqual(
                withUnsafeBytes(of: NotificationLayout.version, Array.init))
    }

    /// Refuses a file of another content, before it is written: another user may have given the name to a file of this user.
    /// A file that a crash of the machine left has no bytes, zeros throughout, or the magic.
    private static func requireOwn(_ file: borrowing FileDescriptor) throws(SystemError) {
        let magic = withUnsafeBytes(of: NotificationLayout.magic, Array.init)
        if try file.read(at: 0, byteCount: magic.count) == magic { return }
        let isShort = try file.status().byteCount <= NotificationLayout.byteCount
        if isShort, try LeadingZeros(of: file, limitBytes: NotificationLayout.byteCount) == .throughout { return }
        throw SystemError.foreign("open", file.path, "file of notifications")
    }

    private static func range(_ byte: Int64) -> Range<Int64> { byte..<byte + 1 }

    /// Waits a bounded time for a lock that is held for moments.
    private static func lock(
        _ file: borrowing FileDescriptor, _ byte: Int64, _ kind: LockKind
    ) throws(SystemError) {
        var polling = Polling(first: SharingLimits.firstLockPause, until: .now + SharingLimits.tableWait)
        while try !file.tryLock(range(byte), kind) {
            guard polling.sleep() else { throw SystemError.stale("fcntl(F_OFD_SETLK)", file.path) }
        }
    }

    /// Whether the path still names this file, and whether it was not truncated.
    package var isCurrent: Bool { !mapping.isLost && (try? Files.identity(path)) == identity }

    // MARK: Names

    /// Finds the entry of a name.
    package func entry(of name: NotificationName) -> Int? {
        for index in places(of: name) {
            let (low, high) = hash(at: index)
            if low == 0 { return nil }
            if low == name.low && high == name.high { return index }
        }
        return nil
    }

    /// Finds the entry of a name for an observation, which must live as long as this object, or adds it.
    ///
    /// - Throws: ``SystemError`` `ENOSPC` when processes observe too many names.
    package func observe(_ name: NotificationName) throws(SystemError) -> Int {
        try withFile { file throws(SystemError) in
            try Self.lock(file, NotificationLayout.observersByte, .shared)
            try Self.lock(file, NotificationLayout.makingByte, .exclusive)
            defer { try? file.unlock(Self.range(NotificationLayout.makingByte)) }
            if let known = entry(of: name) { return known }
            if let added = add(name) { return added }
            guard try forgetNames(file), let added = add(name) else {
                throw SystemError.full("CrossProcessNotification", path, "\(NotificationLayout.entryCount) names")
            }
            return added
        }
    }

    /// The entries where a name may be, in order.
    private func places(of name: NotificationName) -> some Sequence<Int> {
        let first = Int(name.low % UInt64(NotificationLayout.entryCount))
        return (0..<NotificationLayout.entryCount).lazy.map { (first + $0) % NotificationLayout.entryCount }
    }

    private func hash(at index: Int) -> (low: UInt64, high: UInt64) {
        let offset = NotificationLayout.entry(index)
        return (words.load64(offset + Entry.low), words.load64(offset + Entry.high))
    }

    private func add(_ name: NotificationName) -> Int? {
        guard let index = places(of: name).first(where: { hash(at: $0).low == 0 }) else { return nil }
        let offset = NotificationLayout.entry(index)
        words.store64(offset + Entry.high, name.high)
        words.store64(offset + Entry.low, name.low)
        return index
    }

    /// Forgets all names, if nobody else observes one.
    private func forgetNames(_ file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        // The lock is changed from shared to exclusive, and back, without a moment in between.
        guard try file.tryLock(Self.range(NotificationLayout.observersByte), .exclusive) else { return false }
        defer { _ = try? file.tryLock(Self.range(NotificationLayout.observersByte), .shared) }
        for index in 0..<NotificationLayout.entryCount {
            words.store64(NotificationLayout.entry(index) + Entry.low, 0)
        }
        return true
    }

    private func withFile<T>(
        _ body: (borrowing FileDescriptor) throws(SystemError) -> T
    ) throws(SystemError) -> T {
        try file.withLock { file throws(SystemError) in
            switch file {
            case .none: throw SystemError.stale("fcntl(F_OFD_SETLK)", path)
            case .some(let file): return try body(file)
            }
        }
    }

    /// Ends the observation: the entry may be used for another name from now on.
    package func close() {
        file.withLock { file in
            guard let descriptor = file.take() else { return }
            try? descriptor.unlock(Self.range(NotificationLayout.observersByte))
        }
    }

    // MARK: Posts

    /// How many posts there were for an entry.
    package func posts(of entry: Int) -> UInt32 { words.load32(NotificationLayout.entry(entry) + Entry.posts) }

    /// Posts a notification, and wakes its observers.
    package func post(_ entry: Int) {
        words.add32(NotificationLayout.entry(entry) + Entry.posts, 1)
        wake(entry)
    }

    /// Wakes the observers, who find nothing new.
    package func wake(_ entry: Int) { words.wakeAll(NotificationLayout.entry(entry) + Entry.posts) }

    /// Sleeps until there are other posts than these, or until the time has passed. It may return early.
    ///
    /// - Returns: False where the system has no wait on a memory word; it returns at once then.
    package func awaitPost(of entry: Int, after count: UInt32, for timeout: Duration) -> Bool {
        words.sleep(
            on: NotificationLayout.entry(entry) + Entry.posts, while: count, forNanoseconds: timeout.wholeNanoseconds)
    }
}
