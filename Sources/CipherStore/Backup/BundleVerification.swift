import CipherDatabase
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// A backup that was verified.
struct VerifiedBundle: Sendable {
    let manifest: BackupManifest
    let sidecar: Sidecar
    let keys: SidecarKeys
    let key: PageKey
}

/// Verifies a backup: its manifest by the data key, its sidecar by its seal, its database by hash and page by page.
struct BundleVerification {
    let bundle: BackupBundle
    let watch: BackupWatch

    /// - Parameter unlock: Derives the keys from a claimed sidecar; nil when it has no keyslot for them.
    /// - Throws: ``StoreError`` `backupDamaged`, `wrongKey`, `sidecarForged`, `sidecarAhead`, `noSuchStore`;
    ///   `CancellationError`; ``SystemError``.
    func run(unlock: (Sidecar) throws -> SidecarKeys?) throws -> VerifiedBundle {
        let read = try bundle.readManifest()
        let manifest = read.manifest
        try requireLengths(manifest)
        let sealed = try bundle.readSidecar()
        guard try ContentDigest.sha256(sealed.bytes) == manifest.sidecar.sha256 else {
            throw bundle.damaged("its sidecar is not the one that its manifest names")
        }
        let (keys, dataKey) = try unlockSidecar(sealed, unlock)
        guard try BackupManifest.isAuthentic(read, dataKey) else {
            throw bundle.damaged("its manifest was changed by somebody without the key, or is that of another backup")
        }
        let sidecar = sealed.claimed
        guard sidecar.storeID == manifest.storeID, sidecar.epoch == manifest.epoch,
            sidecar.generation == manifest.generation, sidecar.settings.pageBytes == manifest.pageBytes,
            sidecar.state == .ready
        else { throw bundle.damaged("its sidecar is not that of its database") }
        let key = PageKey(dataKey, salt: sidecar.salt, settings: sidecar.settings)
        try verifyDatabase(manifest, key)
        return VerifiedBundle(manifest: manifest, sidecar: sidecar, keys: keys, key: key)
    }

    private func requireLengths(_ manifest: BackupManifest) throws {
        for file in [manifest.database, manifest.sidecar] {
            let path = bundle.folder + "/" + file.name
            guard try Files.kind(path) == .regular, let bytes = try Files.byteCount(path) else {
                throw bundle.damaged("its \(file.name) is missing")
            }
            guard bytes == file.byteCount else {
                throw bundle.damaged(
                    "its \(file.name) has \(CountText.text(bytes, "byte")) instead of \(file.byteCount)")
            }
        }
        let length = DatabaseLength(fileBytes: manifest.database.byteCount, pageBytes: manifest.pageBytes)
        guard length.isExactly(pages: Int(manifest.pages)) else {
            throw bundle.damaged("its manifest contradicts itself about the length of the database")
        }
    }

    private func unlockSidecar(
        _ sealed: UnauthenticatedSidecar, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> (SidecarKeys, DataKey) {
        guard let keys = try unlock(sealed.claimed) else { throw wrongKey() }
        switch try sealed.authenticate(keys) {
        case .wrongKey: throw wrongKey()
        case .forged:
            throw StoreError(
                .sidecarForged, what: "The sidecar in the backup \"\(bundle.folder)\" was changed.",
                why: "The key fits, but the authentication code does not.", remedy: "Use another backup.")
        case .genuine(let sidecar):
            guard let dataKey = try keys.dataKey(of: sidecar) else { throw wrongKey() }
            return (keys, dataKey)
        }
    }

    private func verifyDatabase(_ manifest: BackupManifest, _ key: PageKey) throws {
        let transfer = PageTransfer(key: key, pages: manifest.pages, watch: watch)
        let file = OpenFile(try FileDescriptor(opening: bundle.databasePath, .readOnly, mustBeRegular: true))
        let (hash, badPage) = try transfer.readBack(file)
        if let badPage {
            throw bundle.damaged("page \(badPage) of its database is not authentic")
        }
        guard hash == manifest.database.sha256 else {
            throw bundle.damaged("its database has another hash than its manifest says")
        }
    }

    private func wrongKey() -> StoreError {
        StoreError(
            .wrongKey, what: "The key does not open the backup \"\(bundle.folder)\".",
            why: "A backup opens with the keys that its store had when it was made.",
            remedy: "Give a key of that time: the passphrase, key file or recovery key that opened the store then.")
    }
}
