import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

/// The folder of a backup: the database with the pages of its WAL, its sidecar, and the manifest.
///
/// No process uses its files, so they are opened and closed like any others.
package struct BackupBundle: Sendable {
    package static let databaseName = "store.db"
    static let sidecarName = "store.db-sidecar"
    package static let manifestName = "manifest.json"

    package let folder: String

    init(_ folder: String) {
        self.folder = folder.count > 1 && folder.hasSuffix("/") ? String(folder.dropLast()) : folder
    }

    var databasePath: String { folder + "/" + Self.databaseName }
    var sidecarPath: String { folder + "/" + Self.sidecarName }
    var manifestPath: String { folder + "/" + Self.manifestName }

    /// Reads the manifest.
    ///
    /// - Throws: ``StoreError`` `noSuchStore` when there is no folder, `backupDamaged`, `sidecarAhead`.
    func readManifest() throws -> ReadManifest {
        let kind = try Files.kind(folder)
        guard kind == .directory else {
            throw StoreError(
                .noSuchStore, what: "There is no backup at \"\(folder)\".",
                why: kind == nil ? "The path does not exist." : "It is a file, and a backup is a folder.",
                remedy: "Check the path.")
        }
        // One catch for all errors: two of them crash the compiler here.
        do {
            let bytes = try Files.contents(of: manifestPath, limitBytes: StoreLimits.manifestBytes)
            return try BackupManifest.parse(bytes)
        } catch {
            throw explain(error)
        }
    }

    private func explain(_ error: any Error) -> any Error {
        switch error {
        case let error as SystemError where error.isNotFound:
            guard Files.exists(databasePath) || Files.exists(sidecarPath) else {
                return StoreError(
                    .noSuchStore, what: "There is no backup at \"\(folder)\".",
                    why: "The folder has neither \(Self.manifestName) nor \(Self.databaseName).",
                    remedy: "Check the path.")
            }
            return damaged("it has no \(Self.manifestName)")
        case let error as SystemError where error.isTooLarge: return damaged("its \(Self.manifestName) is too long")
        case let error as BackupManifest.SyntaxError where error.isAhead:
            return StoreError(
                .sidecarAhead, what: "The backup \"\(folder)\" was written by a newer version.",
                why: "Its manifest is of a version that this one does not know.",
                remedy: "Restore it with the newer version; nothing was changed.")
        case let error as BackupManifest.SyntaxError:
            return damaged("line \(error.line) of its \(Self.manifestName) is not \(error.expected)")
        default: return error
        }
    }

    /// The sidecar in the backup, not authenticated yet.
    func readSidecar() throws -> UnauthenticatedSidecar {
        do {
            return try UnauthenticatedSidecar.parse(
                Files.contents(of: sidecarPath, limitBytes: StoreLimits.manifestBytes))
        } catch let error as SidecarSyntaxError {
            throw damaged("its sidecar cannot be read: \(error)")
        }
    }

    package func damaged(_ why: String, remedy: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "The backup \"\(folder)\" is not complete and unchanged.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy: remedy)
    }

    // MARK: A database inside a backup

    /// The backup whose database a path names; nil for the database of a store.
    ///
    /// A manifest next to it that cannot be read is treated as one: a possible backup is not written.
    package init?(holding path: String) {
        let database = StorePaths(path).database
        guard Files.name(of: database) == Self.databaseName else { return nil }
        self.init(Files.directory(of: database))
        guard hasManifest else { return nil }
    }

    /// The database that a path means: that of the backup where the path is a backup's folder, otherwise the path
    /// itself.
    package static func database(meantBy path: String) -> String {
        guard (try? Files.kind(path)) == .directory else { return path }
        let bundle = BackupBundle(path)
        return bundle.hasManifest ? bundle.databasePath : path
    }

    /// - Throws: ``StoreError`` `backupReadOnly` when a path names the database of a backup, `backupDamaged` when it
    ///   has been used as a store since.
    package static func refuse(writing path: String) throws(StoreError) {
        guard let bundle = BackupBundle(holding: path) else { return }
        try bundle.requireUnused()
        throw StoreError(
            .backupReadOnly, what: "\"\(bundle.databasePath)\" is the database of a backup, which is never written.",
            why: "Its manifest contains the hashes of the files: after any change the folder is no longer a backup.",
            remedy: "Make a store of it with `cipherctl restore \(ShellWord.path(bundle.folder)) STORE`, or read it in "
                + "place. Move \"\(bundle.manifestPath)\" away only if it was used as a store since and can therefore not be "
                + "restored. Nothing was changed.")
    }

    /// Refuses to write a database that shows, without being hashed, that it was written after the backup was made.
    ///
    /// - Throws: ``StoreError`` `backupDamaged`.
    private func requireUnused() throws(StoreError) {
        if let companion = companions.first(where: \.mayHoldWrites) {
            throw changed("\"\(companion.path)\" may hold later writes")
        }
        try requireLength()
    }

    /// Refuses a database of another length than that of the backup.
    ///
    /// - Throws: ``StoreError`` `backupDamaged`.
    func requireLength() throws(StoreError) {
        guard let manifest = try? readManifest().manifest, let bytes = (try? Files.byteCount(databasePath)) ?? nil,
            bytes != manifest.database.byteCount
        else { return }
        throw changed("it has \(CountText.text(bytes, "byte")) instead of \(manifest.database.byteCount)")
    }

    private func changed(_ change: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "\"\(databasePath)\" was changed since the backup was made.",
            why: "Its manifest says that it is the database of a backup, which is never written, but \(change).",
            remedy: "To use it as a store, with all that it holds, move \"\(manifestPath)\" away. `cipherctl "
                + "backup verify` reports whether the backup can still be restored. Nothing was changed.")
    }

    // MARK: Files that are no part of it

    /// A file of SQLite beside the database of a backup. The manifest does not name it: it is no part of the backup, and
    /// nothing reads it.
    package struct Companion: Hashable, Sendable {
        package let path: String
        /// Whether it may hold writes to the database: a WAL or a journal with content.
        package let mayHoldWrites: Bool

        package var what: String {
            "\"\(path)\" is no part of the backup, and nothing reads it"
                + (mayHoldWrites ? ". It may hold writes that were made since the backup" : "")
        }

        package var remedy: String {
            mayHoldWrites
                ? "find out who made it, and move it away. To use the database with these writes, as a store, move "
                    + "\"\(Files.directory(of: path))/\(BackupBundle.manifestName)\" away instead"
                : "remove it: a program that has opened the database has left it"
        }
    }

    /// The files of SQLite beside the database.
    package var companions: [Companion] {
        let paths = StorePaths(databasePath)
        return [paths.wal, paths.journal, paths.sharedMemory].compactMap { path in
            guard let status = (try? Files.ownStatus(of: path)) ?? nil else { return nil }
            let mayHold = path != paths.sharedMemory && (status.kind != .regular || status.byteCount > 0)
            return Companion(path: path, mayHoldWrites: mayHold)
        }
    }

    /// A notice about each companion that may hold writes.
    package var notices: [String] {
        companions.filter(\.mayHoldWrites).map { "\($0.what): \($0.remedy)" }
    }

    private var hasManifest: Bool {
        guard ((try? Files.kindOfName(manifestPath)) ?? nil) != nil else { return false }
        // Another user of the folder may have put a pipe or a folder there.
        guard let bytes = try? Files.contents(of: manifestPath, limitBytes: StoreLimits.manifestBytes) else {
            return true
        }
        return bytes.starts(with: "{\n  \"format\": \"\(BackupManifest.formatName)\"".utf8)
    }

    // MARK: Leftovers

    /// Whether a backup or its verification creates a file of this name.
    static func isOwn(_ name: String) -> Bool {
        let lockName = StagingDirectory.Purpose.backup.lockName
        return name.hasPrefix(databaseName) || name == manifestName || name == lockName
            || name.hasPrefix(lockName + ".tmp-")
    }
}
