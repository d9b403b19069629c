import PageFormat
import StorePlatform
import StoreSharing

/// The files that SQLite keeps beside a database: another user of the folder can give their names to other files, which
/// SQLite would read, overwrite or empty.
package enum CompanionFiles {
    /// Refuses regular files that are not the database's own. Links, folders, pipes and devices are refused by the connection.
    ///
    /// - Throws: ``StoreError`` `hardLinked`, `alreadyExists`.
    static func requireUsable(_ paths: StorePaths) throws(StoreError) {
        if let fault = faults(paths).first { throw fault }
    }

    /// The faults that keep a connection from being opened.
    package static func faults(_ paths: StorePaths) -> [StoreError] {
        // A restoration gives all files a second name for a moment. A store with one is refused for its database.
        let hasOneName = ((try? Files.ownStatus(of: paths.database)) ?? nil).map { $0.linkCount <= 1 } ?? true
        return [paths.wal, paths.sharedMemory, paths.journal].compactMap { path in
            guard let status = (try? Files.ownStatus(of: path)) ?? nil, status.kind == .regular else { return nil }
            if status.linkCount > 1, hasOneName { return linked(path, status, isLog: path == paths.wal) }
            if path == paths.wal, !isLog(path, status) { return foreign(path, "the WAL") }
            if path == paths.sharedMemory, !isIndex(path, status) { return foreign(path, "the WAL index") }
            return nil
        }
    }

    private static func linked(_ path: String, _ status: FileStatus, isLog: Bool) -> StoreError {
        StoreError(
            .hardLinked, what: "\"\(path)\" has \(status.linkCount) names.",
            why: "Another hard link names the same file, and SQLite would change it under both."
                + (isLog && status.byteCount > 0 ? " It may hold commits that are nowhere else." : ""),
            remedy:
                "Remove the other names (`find DIR -samefile \(ShellWord.path(path))` finds them), and keep this one.")
    }

    private static func foreign(_ path: String, _ noun: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "\"\(path)\" is not \(noun) of a database.",
            why: "It has the name of one and another content, which SQLite would overwrite.",
            remedy: "Find out what it is and who put it there, and move it away. Nothing was changed.")
    }

    /// Whether a file can be a WAL. A damaged header has the magic number or the version; a crash of the machine leaves zeros.
    private static func isLog(_ path: String, _ status: FileStatus) -> Bool {
        guard status.byteCount > 0 else { return true }
        // A WAL has no locks that a close would drop.
        guard let file = try? FileDescriptor(opening: path, .readOnly, followsLinks: false),
            let head = try? file.read(at: 0, byteCount: WALHeader.headerBytes)
        else { return true }
        let magic = number(head, at: WALHeader.Offset.magic)
        return magic & ~1 == WALHeader.magic
            || number(head, at: WALHeader.Offset.formatVersion) == WALHeader.formatVersion
            || head.allSatisfy { $0 == 0 }
    }

    /// Whether a file can be a WAL index. SQLite makes it of blocks of 4096 bytes. A file of whole blocks is not read: closing
    /// it would drop the locks of this process, and keeping it open takes a descriptor.
    private static func isIndex(_ path: String, _ status: FileStatus) -> Bool {
        if status.byteCount % 4096 == 0 { return true }
        guard let file = try? LiveFiles.descriptor(of: path) else { return true }
        var head = [UInt8](repeating: 0, count: 4)
        guard (try? head.withUnsafeMutableBytes { try file.read(at: 0, into: $0) }) != nil else { return true }
        let version = withUnsafeBytes(of: WALIndex.formatVersion, Array.init)
        return head == version || head.allSatisfy { $0 == 0 }
    }

    private static func number(_ bytes: [UInt8], at offset: Int) -> UInt32 {
        guard bytes.count >= offset + 4 else { return 0 }
        return bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
