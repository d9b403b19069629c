import CipherDatabase
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

extension BackupBundle: RestorationSource {
    package var name: String { folder }
    package var attributesPath: String? { databasePath }
    package var foreignFiles: [String] { companions.filter(\.mayHoldWrites).map(\.path) }

    package func damaged(_ why: String) -> StoreError {
        damaged(why, remedy: "Use another backup. Nothing was changed.")
    }

    /// Verifies the whole backup.
    package func open(_ watch: BackupWatch, unlock: (Sidecar) throws -> SidecarKeys?) throws -> OpenedBackup {
        let opened = try BundleVerification(bundle: self, watch: watch).run(unlock: unlock)
        try BundleOpening.check(self, opened.keys, pages: opened.facts.pages)
        return opened
    }

    package func makeReader() throws -> PageScan.Reader {
        let source = OpenFile(try FileDescriptor(opening: databasePath, .readOnly, mustBeRegular: true))
        return { try source.read(at: $0, into: $1) }
    }
}

/// Verifies a backup: its manifest by the data key, its sidecar by its seal, its database by hash and page by page.
struct BundleVerification {
    let bundle: BackupBundle
    let watch: BackupWatch

    /// - Parameter unlock: Derives the keys from a claimed sidecar; nil when it has no keyslot for them.
    /// - Throws: ``StoreError`` `backupDamaged`, `wrongKey`, `sidecarForged`, `sidecarAhead`, `noSuchStore`;
    ///   `CancellationError`; ``SystemError``.
    func run(unlock: (Sidecar) throws -> SidecarKeys?) throws -> OpenedBackup {
        let read = try bundle.readManifest()
        let manifest = read.manifest
        try requireLengths(manifest)
        let sealed = try bundle.readSidecar()
        guard try ContentDigest.sha256(sealed.bytes) == manifest.sidecar.sha256 else {
            throw bundle.damaged("its sidecar is not the one that its manifest names")
        }
        let (keys, dataKey) = try bundle.unlock(sealed, unlock)
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
        return OpenedBackup(
            facts: manifest.facts, sidecar: sidecar, keys: keys, key: key, sha256: manifest.database.sha256)
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
}
