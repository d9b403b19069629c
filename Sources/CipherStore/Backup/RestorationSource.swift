import KeyCustody
import PageFormat
import StorePlatform

/// A backup that a key has opened.
package struct OpenedBackup: Sendable {
    package let facts: BackupFacts
    package let sidecar: Sidecar
    package let keys: SidecarKeys
    package let key: PageKey
    /// The SHA-256 of the database; nil where each page has a hash of its own.
    package let sha256: [UInt8]?

    package init(facts: BackupFacts, sidecar: Sidecar, keys: SidecarKeys, key: PageKey, sha256: [UInt8]?) {
        self.facts = facts
        self.sidecar = sidecar
        self.keys = keys
        self.key = key
        self.sha256 = sha256
    }
}

/// A backup from which a store is restored: a folder, or a backup in a repository.
package protocol RestorationSource: Sendable {
    /// Its name in errors and reports.
    var name: String { get }
    /// The file whose mode, owner and group a new database gets; nil where its files are those of many stores.
    var attributesPath: String? { get }
    /// Notices that are not failures: one sentence each.
    var notices: [String] { get }
    /// Files that are no part of the backup and may hold later writes: their paths.
    var foreignFiles: [String] { get }

    /// Opens the backup with a key, and verifies all that ``makeReader()`` does not verify.
    ///
    /// - Parameter unlock: Derives the keys from a claimed sidecar; nil when it has no keyslot for them.
    func open(_ watch: BackupWatch, unlock: (Sidecar) throws -> SidecarKeys?) throws -> OpenedBackup
    /// Reads the encrypted database; for several threads.
    func makeReader() throws -> PageScan.Reader
    /// The error of a backup that is not complete and unchanged.
    func damaged(_ why: String) -> StoreError
}

extension RestorationSource {
    /// Authenticates a sidecar of the backup.
    ///
    /// - Throws: ``StoreError`` `wrongKey`, `sidecarForged`.
    package func unlock(
        _ sealed: UnauthenticatedSidecar, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> (keys: SidecarKeys, dataKey: DataKey) {
        guard let keys = try unlock(sealed.claimed) else { throw wrongKey() }
        switch try sealed.authenticate(keys) {
        case .wrongKey: throw wrongKey()
        case .forged:
            throw StoreError(
                .sidecarForged, what: "The sidecar in the backup \"\(name)\" was changed.",
                why: "The key fits, but the authentication code does not.", remedy: "Use another backup.")
        case .genuine(let sidecar):
            guard let dataKey = try keys.dataKey(of: sidecar) else { throw wrongKey() }
            return (keys, dataKey)
        }
    }

    private func wrongKey() -> StoreError {
        StoreError(
            .wrongKey, what: "The key does not open the backup \"\(name)\".",
            why: "A backup opens with the keys that its store had when it was made.",
            remedy: "Give a key of that time: the passphrase, key file or recovery key that opened the store then.")
    }
}
