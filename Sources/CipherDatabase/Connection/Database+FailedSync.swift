// The state after the system could not sync a file to disk.
//
// A failed fsync is reported once. The system may then treat the pages that it could not write as written, so that the
// next fsync succeeds although they are lost: trying again would turn an error into silent damage. So the connection
// writes nothing from then on, its checkpoints included, until the database is closed and opened again.

extension ResultCode {
    /// Whether the system could not sync a file to disk.
    var isFailedSync: Bool { self == .SQLITE_IOERR_FSYNC || self == .SQLITE_IOERR_DIR_FSYNC }
}

extension Database {
    /// Ends all writing of this connection, the checkpoint of the last close included. Reads continue.
    /// - SeeAlso: <https://wiki.postgresql.org/wiki/Fsync_Errors>
    func didFailToSync() {
        guard !health.hasFailedToSync else { return }
        health.hasFailedToSync = true
        handle.setCheckpointOnClose(false)
    }
}

extension DatabaseError {
    /// A write that is refused since an earlier fsync failed.
    static func syncFailed(sql: String?) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_IOERR_FSYNC,
            message: "an earlier fsync of this database failed, so nothing more is written: what was committed last "
                + "may not be on the disk. Check the disk, close the database and open it again",
            sql: sql)
    }
}
