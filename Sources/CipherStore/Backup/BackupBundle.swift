import CipherDatabase
import KeyCustody
import StorePlatform

/// The folder of a backup: the database with its log folded in, its sidecar, and what is to be found there.
///
/// Its files are used by nobody, so they are opened and closed like any others.
package struct BackupBundle: Sendable {
    package static let databaseName = "store.db"
    package static let sidecarName = "store.db-sidecar"
    package static let manifestName = "manifest.json"

    package let folder: String

    package init(_ folder: String) {
        self.folder = folder.count > 1 && folder.hasSuffix("/") ? String(folder.dropLast()) : folder
    }

    package var databasePath: String { folder + "/" + Self.databaseName }
    package var sidecarPath: String { folder + "/" + Self.sidecarName }
    package var manifestPath: String { folder + "/" + Self.manifestName }

    /// Reads the manifest.
    ///
    /// - Throws: ``StoreError`` `noSuchStore` when there is no folder, `backupDamaged`, `sidecarAhead`.
    func readManifest() throws -> ReadManifest {
        guard try Files.kind(folder) == .directory else {
            throw StoreError(
                .noSuchStore, what: "There is no backup at \"\(folder)\".",
                why: "It is not a folder, or does not exist.", remedy: "Check the path.")
        }
        let bytes: [UInt8]
        do {
            bytes = try Files.contents(of: manifestPath, limitBytes: Limits.manifestBytes)
        } catch  where error.isNotFound {
            throw damaged("it has no \(Self.manifestName)")
        } catch  where error.isTooLarge {
            throw damaged("its \(Self.manifestName) is longer than any")
        }
        do {
            return try BackupManifest.parse(bytes)
        } catch  where error.isAhead {
            throw StoreError(
                .sidecarAhead, what: "The backup \"\(folder)\" was written by a newer version.",
                why: "Its manifest is of a version that this one does not know.",
                remedy: "Restore it with the newer version; nothing was changed.")
        } catch {
            throw damaged("line \(error.line) of its \(Self.manifestName) is not \(error.expected)")
        }
    }

    /// The sidecar in the backup, as somebody wrote it.
    func readSidecar() throws -> UnauthenticatedSidecar {
        let bytes = try Files.contents(of: sidecarPath, limitBytes: Limits.manifestBytes)
        do {
            return try UnauthenticatedSidecar.parse(bytes)
        } catch {
            throw damaged("its sidecar cannot be read: \(error)")
        }
    }

    func damaged(_ why: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "The backup \"\(folder)\" is not complete and unchanged.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy: "Use another backup. Nothing was changed; salvage may still find rows in its database.")
    }

    // MARK: Leftovers

    /// Removes the folder and what a backup puts into it. Anything else in it keeps it.
    static func remove(_ folder: String) throws(SystemError) {
        guard Files.exists(folder) else { return }
        for name in try Files.names(inDirectory: folder) where isOwn(name) {
            try Files.remove(folder + "/" + name)
        }
        try Files.removeDirectory(folder)
    }

    /// Whether a backup or its verification makes a file of this name.
    static func isOwn(_ name: String) -> Bool {
        name.hasPrefix(databaseName) || name == manifestName || name == StagedBundle.lockName
    }
}
