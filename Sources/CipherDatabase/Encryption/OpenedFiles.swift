import StorePlatform
import StoreSharing
import Synchronization

/// The files that the first connection to a database has open. Every later connection must find the same files.
struct OpenedFiles: Sendable {
    private let paths: StorePaths
    private let database: FileIdentity?
    /// nil outside of WAL mode.
    private let wal: FileIdentity?
    /// nil outside of WAL mode.
    private let index: FileIdentity?

    /// The last index of each database that this process has opened.
    private static let indexes = Mutex<[FileIdentity: FileIdentity]>([:])

    /// Notes the files that have the names of the database, right after a connection has opened them.
    ///
    /// - Throws: ``StoreError`` `storeMoved` if the connection uses another index than the one that has the name.
    init(_ paths: StorePaths, isWAL: Bool) throws(StoreError) {
        func identity(_ path: String) -> FileIdentity? { ((try? Files.ownStatus(of: path)) ?? nil)?.identity }
        self.paths = paths
        database = identity(paths.database)
        wal = isWAL ? identity(paths.wal) : nil
        index = isWAL ? identity(paths.sharedMemory) : nil
        if isWAL, let database { try requireNamedIndex(of: database) }
    }

    /// Refuses a connection that SQLite gave the removed index of an older connection: all connections of a process to a
    /// file share one index, and a snapshot keeps it.
    private func requireNamedIndex(of database: FileIdentity) throws(StoreError) {
        // Only where the index has changed, the open files are listed.
        if let former = Self.indexes.withLock({ $0[database] }), former != index {
            let isFormer = index.map { OpenFolder.hasOpened($0) == false } ?? (OpenFolder.hasOpened(former) == true)
            if isFormer { throw LiveWAL.Fault.sharedIndex(paths.sharedMemory) }
        }
        Self.indexes.withLock { $0[database] = index }
    }

    /// Refuses a later connection where a name leads to another file, or to none: SQLite would read that one, or make a new
    /// one beside the other connections.
    ///
    /// - Throws: ``StoreError`` `storeMoved`; `SystemError`.
    func requireSame() throws {
        guard try Files.ownStatus(of: paths.database)?.identity == database else {
            throw StoreError.moved(paths.database)
        }
        for (path, known) in [(paths.wal, wal), (paths.sharedMemory, index)] {
            guard let known else { continue }
            guard let present = try Files.ownStatus(of: path) else { throw LiveWAL.Fault.missing(path).error }
            if present.identity != known { throw LiveWAL.Fault.replaced(path, isUnused: false).error }
        }
    }
}
