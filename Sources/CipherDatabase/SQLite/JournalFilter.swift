import CSQLCipher
import Synchronization

/// SQLite's usual access to files, which finds no rollback journal beside the databases that are named here.
///
/// SQLite plays back every journal that it finds beside a database when it reads that for the first time, in WAL mode too:
/// it overwrites and cuts off the database, and removes a file that the journal names. A database in WAL mode needs no
/// journal. One that is there belongs to another database, or another user has made it.
/// - SeeAlso: <https://www.sqlite.org/vfs.html>, <https://www.sqlite.org/fileformat2.html#the_rollback_journal>
enum JournalFilter {
    /// The journals that SQLite is not to find, with the addresses of the connections that hide them.
    private static let hidden = Mutex<[String: Set<UInt>]>([:])
    /// SQLite's usual access, which lives as long as the process.
    // Safe because: SQLite makes it before the first call and never changes it.
    private static nonisolated(unsafe) let usual = sqlite3_vfs_find(nil)

    /// The registered access; nil where SQLite has none.
    // Safe because: it is made once, and never changed after it is registered.
    private static nonisolated(unsafe) let filter: UnsafeMutablePointer<sqlite3_vfs>? = {
        guard let usual else { return nil }
        let filter = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        filter.initialize(to: usual.pointee)
        filter.pointee.pNext = nil
        let name = Array("cipherstore".utf8CString)
        let place = UnsafeMutablePointer<CChar>.allocate(capacity: name.count)
        place.initialize(from: name, count: name.count)
        filter.pointee.zName = UnsafePointer(place)
        filter.pointee.xAccess = { system, path, flags, result in
            if flags == SQLITE_ACCESS_EXISTS, let path, JournalFilter.isHidden(String(cString: path)) {
                result?.pointee = 0
                return SQLITE_OK
            }
            return JournalFilter.usual?.pointee.xAccess(system, path, flags, result) ?? SQLITE_IOERR
        }
        return sqlite3_vfs_register(filter, 0) == SQLITE_OK ? filter : nil
    }()

    /// The name of the access for `sqlite3_open_v2`.
    static var name: UnsafePointer<CChar>? { filter?.pointee.zName }

    fileprivate static func isFilter(_ system: UnsafeMutablePointer<sqlite3_vfs>?) -> Bool {
        system != nil && system == filter
    }

    fileprivate static func hide(_ journal: String, by connection: UInt) {
        hidden.withLock { _ = $0[journal, default: []].insert(connection) }
    }

    fileprivate static func show(_ journal: String, by connection: UInt) {
        hidden.withLock { hidden in
            hidden[journal]?.remove(connection)
            if hidden[journal]?.isEmpty == true { hidden[journal] = nil }
        }
    }

    fileprivate static func isHidden(_ journal: String) -> Bool { hidden.withLock { $0[journal] != nil } }
}

extension ConnectionHandle {
    /// The rollback journal that ``JournalFilter`` can hide; nil on a connection that was opened without it.
    private var filteredJournal: String? {
        var system: UnsafeMutablePointer<sqlite3_vfs>?
        guard sqlite3_file_control(pointer, "main", SQLITE_FCNTL_VFS_POINTER, &system) == SQLITE_OK,
            JournalFilter.isFilter(system), let database = sqlite3_db_filename(pointer, "main")
        else { return nil }
        return sqlite3_filename_journal(database).map { String(cString: $0) }
    }

    /// Makes SQLite read the database without a rollback journal, before its first read.
    func hideJournal() {
        if let filteredJournal { JournalFilter.hide(filteredJournal, by: UInt(bitPattern: pointer)) }
    }

    /// Ends that, when the connection is closed.
    func showJournal() {
        if let filteredJournal { JournalFilter.show(filteredJournal, by: UInt(bitPattern: pointer)) }
    }

    /// Whether SQLite does not see a rollback journal of the database.
    var hidesJournal: Bool { filteredJournal.map(JournalFilter.isHidden) ?? false }
}
