import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// The file that is to become a store, in its present state.
struct AdoptionTarget {
    /// With all links resolved.
    let path: String

    var paths: StorePaths { StorePaths(path) }
    var sidecar: SidecarFiles { SidecarFiles(databasePath: path) }

    enum Kind: Equatable {
        /// The standard form of SQLCipher, the salt in its first 16 bytes.
        case standard(Salt)
        /// The store has already replaced it, and only its sidecar does not say so yet.
        case adopted
    }

    init(_ path: String) { self.path = StorePaths(path).database }

    /// - Throws: ``ToolError`` or `StoreError` for everything that cannot be adopted, with the reason.
    func examine() throws -> Kind {
        guard let status = try Files.status(of: path) else {
            throw ToolError.noFile(path)
        }
        guard status.kind == .regular else {
            throw ToolError(
                .notRegular, what: "\"\(path)\" cannot be adopted.",
                why: "It is a directory, a device, a pipe or a socket.",
                remedy: "Give the name of a database file; nothing was changed.")
        }
        try TargetPlace.requireShortPath(path)
        try MissingDatabase.requireNoDestruction(paths)
        try requireSafeFilesystem()
        let first = try RawFile(path).bytes(at: 0, count: 4096)
        let hint = "Check the path; the file was left as it is."
        switch DatabaseHeader.examine(first, fileBytes: status.byteCount, settings: nil) {
        case .plaintextHeader: return try examineStore()
        // A file that was cut within a page: the key shows whether it is one of SQLCipher.
        case .opaque(let traits) where traits.looksRandom:
            try requireNoStore()
            try paths.requireFreeName()
            return .standard(try Salt(bytes: Array(first.prefix(Salt.byteCount))))
        case .plainSQLite:
            throw refused("It is a plain SQLite database.", "Encrypt it into a new store with `cipherctl import`.")
        case .damagedHeader(let damage) where damage.offset == DatabaseHeader.magic.count && sidecar.read().areAbsent:
            throw refused(
                "Its first \(DatabaseHeader.magic.count) bytes are readable (PRAGMA cipher_plaintext_header_size), so its "
                    + "salt is not in it.", Self.withoutSalt)
        case .damagedHeader(let damage):
            throw refused(
                "It looks like a store whose header is damaged at byte \(damage.offset).", "Restore it from a backup.")
        case .empty: throw refused("It has no bytes.", "Make a store with `cipherctl create`.")
        case .tooShort, .opaque: throw refused("It is not an encrypted database.", hint)
        }
    }

    private func requireSafeFilesystem() throws {
        let kind = try FilesystemKind.of(path)
        guard !kind.isSafeForSharedWAL else { return }
        throw StoreError(
            .unsupportedFilesystem, what: "\"\(path)\" is on \(kind.name), on which a store is not safe.",
            why: "SQLite's WAL needs locks and shared memory that work between processes.",
            remedy: "Move the file to a local filesystem first.")
    }

    // MARK: Files beside it

    private func examineStore() throws -> Kind {
        let copies = sidecar.read()
        if copies.isAnnouncement { return .adopted }
        if copies.areAbsent {
            throw StoreError(
                .saltMissing, what: "\"\(path)\" cannot be adopted.",
                why: "It has a plaintext header already, so its salt is not in it, and there is no sidecar.",
                remedy: "If it was a store, put its sidecar back from a backup. " + Self.withoutSalt)
        }
        throw ToolError(
            .alreadyStore, what: "\"\(path)\" is a store already.",
            why: "It has a plaintext header and a sidecar.", remedy: "See: cipherctl status; nothing was changed.")
    }

    /// A sidecar beside a standard file belongs to another store, unless an adoption was interrupted.
    private func requireNoStore() throws {
        let copies = sidecar.read()
        if copies.areAbsent || copies.isAnnouncement { return }
        throw StoreError(
            .foreignSidecar, what: "\"\(path)\" cannot be adopted beside the sidecar of a store.",
            why: "\"\(paths.sidecar)\" or its .bak exists, and the file is not the store that it describes.",
            remedy: "Find out which of them belongs here, and move the other away; nothing was changed.")
    }

    /// Removes the sidecar of an interrupted adoption: no page was ever written under it.
    func removeAnnouncement() throws {
        // Before they are read: what is removed is what was examined.
        let (main, backup) = (try OwnedName(at: sidecar.mainPath), try OwnedName(at: sidecar.backupPath))
        guard sidecar.read().isAnnouncement else { return }
        try backup?.remove()
        try main?.remove()
        try Files.synchronize(directory: Files.directory(of: path))
    }

    // MARK: The original

    /// The path at which a file of an older version is kept.
    func backupPath(version: Int) -> String { "\(path).sqlcipher\(version)" }

    /// - Throws: ``ToolError`` when another file has the path at which the original must be kept.
    func requireFreeBackup(version: Int) throws {
        let backup = backupPath(version: version)
        // A link to the file would not keep it: links are not followed.
        guard let kept = try Files.ownStatus(of: backup), try kept.identity != Files.identity(path) else { return }
        throw ToolError(
            .exists, what: "The original of \"\(path)\" cannot be kept.", why: "\"\(backup)\" exists.",
            remedy: "Move it away; nothing was changed.")
    }

    private static let withoutSalt =
        "Without the salt no passphrase opens it. A program that knows the salt can copy the file into one with PRAGMA "
        + "cipher_plaintext_header_size = 0 (sqlcipher_export), which can be adopted."

    func refused(_ why: String, _ remedy: String) -> ToolError {
        ToolError(.notAdoptable, what: "\"\(path)\" cannot be adopted.", why: why, remedy: remedy)
    }
}
