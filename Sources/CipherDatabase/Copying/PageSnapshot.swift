import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The encrypted pages of a database as they were at one moment, while other connections of all processes continue to
/// write.
///
/// A read transaction keeps the moment. While it lives, no frame after the moment is copied into the database file, and
/// the WAL is not reset while the moment needs its frames. So a page of that moment is the last frame of the WAL that
/// contains it, and where there is none the page of the database file. Nothing waits, and nothing is decrypted.
///
/// One case is special: when the database file contained everything, the reader takes no read mark of the WAL, and the
/// next writer may reset it, once. A second reset needs a checkpoint into a file that is being read, which is
/// impossible.
///
/// One thread makes the view, asks it for later commits and closes it; many threads may read pages at once. While it
/// lives the WAL grows, as under any long read. Closing it never checkpoints.
// Safe because: what changes belongs to the one thread that makes and closes the view; pages are read through
// constants.
package final class PageSnapshot: @unchecked Sendable {

    /// The page size in bytes.
    package let pageBytes: Int
    /// The number of pages of the database at the moment.
    package let databasePages: UInt32
    /// The moment, as a position in the WAL.
    package let position: WALPosition
    /// The keys of the pages.
    package let key: PageKey

    private let writer: WritingConnection
    private let reader: SerialConnection
    private let file: LiveFile
    private let log: WALFile
    private let path: String
    /// The last frame of each page that differs from the database file.
    private let lastFrames: [UInt32: UInt32]
    /// Whether the database file contained everything, so that the WAL may be reset.
    private let allowsNewRun: Bool

    /// Keeps the present moment. It holds the write lock for that, for microseconds.
    ///
    /// - Parameters:
    ///   - path: A database in WAL mode, or one that becomes so.
    ///   - configuration: How connections to it are prepared.
    ///   - fileKey: The keys of the file.
    ///   - key: Where they come from.
    ///   - deadline: When the wait for the write lock ends; nil waits for at most a minute.
    ///   - watch: The callbacks that may end that wait earlier and report a long one.
    /// - Throws: As opening the database does; `SQLITE_BUSY` when the write lock is not available, `CancellationError`
    ///   when the watch ended the wait; ``StoreError`` `walDamaged`, `storeMoved`, `headerDamaged` for a file that is
    ///   mostly holes; ``SystemError``.
    package init(
        path: String, configuration: Configuration, fileKey: FileKey, key: KeyOrigin,
        until deadline: ContinuousClock.Instant? = nil, watch: LockWaitWatch? = nil
    ) throws {
        let paths = StorePaths(path)
        let label = configuration.label ?? "CipherStore.PageSnapshot"
        var writing = configuration
        writing.readonly = false
        writing.allowsUnsafeTransactions = false
        var reading = writing
        reading.readonly = true
        writer = try WritingConnection(
            path: path, label: label + ".guard", configuration: writing, fileKey: fileKey, key: key, wal: true,
            isReplaceable: false)
        writer.sync { $0.handle.setCheckpointOnClose(false) }
        let db = try Database.open(
            path: path, label: label + ".view", configuration: reading, fileKey: fileKey, role: .reader, key: key)
        db.handle.setCheckpointOnClose(false)
        reader = SerialConnection(
            db, qos: reading.readQoS, target: reading.targetQueue, allowsOpenTransaction: true)
        self.path = paths.database
        guard let pageKey = fileKey.pageKey else { throw fileKey.saltMissing() }
        self.key = pageKey
        pageBytes = pageKey.settings.pageBytes
        file = try LiveFiles.descriptor(of: paths.database)
        try file.requireContent()
        let log = try WALFile(paths, pageBytes: pageBytes)
        let reader = reader
        // While the write lock is held nobody commits, so the reader sees exactly what the index describes.
        let (index, moment, pages) = try writer.sync { db in
            try db.inTransaction(holdingWriteTurn: deadline ?? .now + DatabaseLimits.openingWait, watch) {
                let pages = try reader.sync { reading in
                    try reading.run(.beginDeferred)
                    _ = try Int.fetchOne(reading, sql: "SELECT COUNT(*) FROM sqlite_schema")
                    // The index of a WAL without frames may not contain the length of the database.
                    return try Int.fetchOne(reading, sql: "PRAGMA page_count")
                }
                let index = try reader.sync { try $0.requireWALIndex() }
                return (index, try log.position(index), pages)
            }
        }
        if try Files.identity(paths.database) != file.identity { throw StoreError.moved(paths.database) }
        self.log = log
        position = moment
        databasePages = UInt32(clamping: pages ?? 0)
        try Self.requireEqualCounts(index, databasePages, path)
        allowsNewRun = index.checkpointedFrames >= index.frames
        lastFrames =
            try allowsNewRun ? [:] : log.frames(after: WALPosition.beginning(of: index), through: index).lastFrames
    }

    /// Later commits are copied up to the length that the WAL counts.
    private static func requireEqualCounts(_ index: WALIndex, _ pages: UInt32, _ path: String) throws(StoreError) {
        guard index.frames > 0, index.databasePages != pages else { return }
        throw StoreError.otherPageCount(path, wal: Int(index.databasePages), header: Int(pages))
    }

    // MARK: The moment

    /// Reads encrypted pages as they were at the moment; for any thread.
    ///
    /// The page of SQLite's lock bytes is all zeros where the file holds nothing for it.
    ///
    /// - Parameters:
    ///   - firstPage: Pages count from 1.
    ///   - buffer: Receives `count` pages.
    /// - Throws: ``StoreError`` `truncated` when the file ends before them; ``SystemError``.
    package func read(firstPage: UInt32, count: Int, into buffer: UnsafeMutableRawBufferPointer) throws {
        let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(count * pageBytes)])
        let got = try file.read(
            at: PageLayout.offset(ofPage: firstPage, pageBytes: pageBytes), into: wanted)
        for place in 0..<count {
            let number = firstPage + UInt32(place)
            let page = UnsafeMutableRawBufferPointer(
                rebasing: wanted[place * pageBytes..<(place + 1) * pageBytes])
            if let frame = lastFrames[number] {
                try log.readPage(ofFrame: frame, into: page)
            } else if (place + 1) * pageBytes > got {
                guard Int(number) == PageLayout.lockByteOffset / pageBytes + 1 else { throw missing(number) }
                page.initializeMemory(as: UInt8.self, repeating: 0)
            }
        }
    }

    // MARK: Later commits

    /// The commits since a moment, by any process.
    ///
    /// - Parameter start: The moment of the freeze, or of an earlier delta.
    /// - Throws: ``StoreError`` `walDamaged`; ``SystemError``.
    package func delta(since start: WALPosition) throws -> WALDelta {
        let index = try reader.sync { try $0.requireWALIndex() }
        if start.salts != index.salts {
            // The WAL held nothing that the file lacks. A run without frames may be replaced by another one.
            guard allowsNewRun, start == position || start.frame == 0 else { throw begunAnew() }
        } else if index.frames < start.frame {
            throw begunAnew()
        }
        let (lastFrames, end) = try log.frames(after: start, through: index)
        return WALDelta(
            pages: lastFrames.sorted { $0.key < $1.key }.map { (page: $0.key, frame: $0.value) }, position: end,
            databasePages: index.databasePages > 0 ? index.databasePages : databasePages,
            walBytes: log.bytes(through: index.frames))
    }

    /// Reads the encrypted page of a frame that ``delta(since:)`` named; for any thread.
    package func readFrame(_ frame: UInt32, into page: UnsafeMutableRawBufferPointer) throws {
        try log.readPage(ofFrame: frame, into: UnsafeMutableRawBufferPointer(rebasing: page[..<pageBytes]))
    }

    /// Excludes every writer while a block runs.
    ///
    /// - Parameter deadline: When the wait for the write turn and SQLite's lock ends.
    /// - Throws: `SQLITE_BUSY` when they are not available; `SQLITE_ABORT` when a suspension released them; what `body`
    ///   throws.
    package func withWriteLock<T>(until deadline: ContinuousClock.Instant, _ body: () throws -> T) throws -> T {
        try writer.sync { try $0.inTransaction(holdingWriteTurn: deadline) { try body() } }
    }

    /// Commits a frame that changes nothing: page 1 as it is.
    ///
    /// A WAL without frames does not show what happened: the process that opens the database first recreates its index,
    /// without salts, so it looks the same after another process has committed, checkpointed and closed. After a frame
    /// it never does.
    ///
    /// - Parameter deadline: When the wait for the write turn and SQLite's lock ends.
    /// - Throws: As ``withWriteLock(until:_:)``.
    package func commitFrame(until deadline: ContinuousClock.Instant) throws {
        try writer.sync { db in
            try db.waiting(upTo: deadline - .now) { try db.beginTransaction(.immediate) }
            do {
                let version = try Int.fetchOne(db, sql: "PRAGMA main.user_version") ?? 0
                try db.execute(sql: "PRAGMA main.user_version = \(version)")
                try db.commit()
            } catch {
                db.rollbackIfNeeded()
                throw error
            }
        }
    }

    /// Ends the view. The WAL stays as it is.
    package func close() throws {
        try reader.close()
        try writer.close()
    }

    // MARK: Errors

    private func missing(_ page: UInt32) -> StoreError {
        StoreError(
            .truncated, what: "Page \(page) of \"\(path)\" is missing.",
            why: "The database has \(CountText.text(databasePages, "page")), but neither its file nor its WAL contains "
                + "this one.",
            remedy: "Run cipherctl verify on the store. Restore it from a backup if the file was truncated.")
    }

    private func begunAnew() -> StoreError {
        StoreError(
            .walDamaged, what: "The WAL of \"\(path)\" was reset while it was being read.",
            why: "A read transaction prevents that: another program ignores SQLite's locks, or removed them.",
            remedy: "Find the program that changes the file, then try again.")
    }
}

extension DatabasePool {
    /// Keeps the present moment of the database.
    package func makePageSnapshot(_ watch: LockWaitWatch? = nil) throws -> PageSnapshot {
        try PageSnapshot(
            path: path, configuration: configuration, fileKey: writer.fileKey, key: writer.key, watch: watch)
    }
}

extension WALPosition {
    /// The position before the first frame of the run that an index describes.
    fileprivate static func beginning(of index: WALIndex) -> WALPosition {
        WALPosition(salts: index.salts, frame: 0, checksum: WALChecksum())
    }
}

extension Database {
    /// The header of the wal-index. Other processes may write it at any moment, each time for less than a microsecond.
    fileprivate func requireWALIndex() throws -> WALIndex {
        var polling = Polling.untilSettled()
        repeat {
            if let index = handle.walIndex { return index }
        } while polling.sleep()
        throw StoreError(
            .walMissing, what: "The WAL index of \"\(path)\" cannot be read.",
            why: "None of its headers matches its checksum.",
            remedy: "Close the store in every process and open it again: that rebuilds the index.")
    }

    /// Runs a block while this connection has the write turn and SQLite's write lock, and writes nothing.
    fileprivate func inTransaction<T>(
        holdingWriteTurn deadline: ContinuousClock.Instant, _ watch: LockWaitWatch? = nil, _ body: () throws -> T
    ) throws -> T {
        try watchingLockWaits(watch) { try waiting(upTo: deadline - .now) { try beginTransaction(.immediate) } }
        let result: T
        do {
            result = try body()
        } catch {
            rollbackIfNeeded()
            throw error
        }
        // A suspension may have rolled back in between: then others could write.
        guard isInsideTransaction else { throw DatabaseError.suspended() }
        try rollback()
        return result
    }
}
