import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// The file that a restoration would replace: the database of a store, or a file at a mistyped path.
package struct ReplacedFile {
    let paths: StorePaths

    package init(paths: StorePaths) { self.paths = paths }

    /// Refuses a file that nothing shows to be a store.
    ///
    /// - Throws: ``StoreError`` `alreadyExists`; `SystemError`.
    package func requireStore() throws {
        guard let why = try strangeness() else { return }
        throw StoreError(
            .alreadyExists, what: "\"\(paths.database)\" is not known to be a store.", why: why,
            remedy:
                "Check the path. To replace the file nevertheless, add --replace-any-file (replacingAnyFile: true in a "
                + "program): it is kept in a folder beside the store. Nothing was changed.")
    }

    /// Whether the path is free, or something shows that a store is there.
    var isKnown: Bool { (try? strangeness()) == .some(nil) }

    /// A sentence about a file that is not known to be a store; nil for a store, and where no file is.
    private func strangeness() throws -> String? {
        guard try Files.kind(paths.database) == .regular, try !hasCompanion() else { return nil }
        let first = try RawFile(paths.database).bytes(at: 0, count: PageLayout.largestPageBytes)
        switch DatabaseHeader.examine(first, fileBytes: try Files.byteCount(paths.database) ?? 0, settings: nil) {
        // Nothing is lost with an empty file.
        case .empty, .plaintextHeader, .damagedHeader: return nil
        case .plainSQLite: return "It is a plain SQLite database."
        case .opaque(let traits) where traits.looksRandom:
            return "It has no sidecar: it may be a database of SQLCipher, or another encrypted file."
        case .opaque, .tooShort: return "It has no sidecar, and is not a database."
        }
    }

    /// Whether a file that only a store has is beside it.
    private func hasCompanion() throws -> Bool {
        if try InterruptedRestoration.folder(of: paths) != nil { return true }
        let log = KeyLog(databasePath: paths.database).path
        return try [paths.sidecar, paths.sidecarBackup, paths.lock, log].contains { try Files.entryExists($0) }
    }
}
