import StorePlatform

extension StoreError {
    /// The code that SQLite or SQLCipher alone would have returned; nil where they have no such error.
    ///
    /// With it `catch DatabaseError.SQLITE_NOTADB`, as programs write it around an opening, catches a wrong key here
    /// too.
    public var resultCode: ResultCode? {
        switch code {
        case .wrongKey, .keyMissing, .saltMissing, .sidecarDamaged, .sidecarForged, .sidecarRolledBack, .foreignSidecar,
            .settingsConflict, .notEncrypted, .headerDamaged:
            .SQLITE_NOTADB
        case .pageDamaged, .truncated, .emptyFile, .logDamaged: .SQLITE_CORRUPT
        case .storeInUse: .SQLITE_BUSY
        case .noSuchStore, .databaseMissing, .logMissing: .SQLITE_CANTOPEN
        case .storeClosed: .SQLITE_MISUSE
        default: nil
        }
    }
}
