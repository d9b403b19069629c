import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// A store's sidecar in a folder of its own; the database is not needed to change keys.
struct KeyFixture {
    let folder: TemporaryFolder
    let files: SidecarFiles
    let administration: KeyAdministration

    /// Slot 1 has the passphrase "first", slot 2 the key file 0.
    init(_ slots: [NewSlot]? = nil) throws {
        folder = try TemporaryFolder()
        files = SidecarFiles(databasePath: folder.file("app.db"))
        let made = try SlotFixture.store(slots ?? [SlotFixture.passphrase("first"), SlotFixture.keyFile(0)])
        try files.write(made.sidecar, keys: made.keys)
        administration = KeyAdministration(databasePath: files.databasePath, keys: made.keys)
    }

    var path: String { files.databasePath }

    func content(_ copy: SidecarCopy) throws -> [UInt8] {
        try Files.contents(of: files.path(of: copy), limitBytes: 1 << 20)
    }

    /// The number of the slot that a key opens; nil when it opens none.
    func opened(_ material: Secret) throws -> UInt64? {
        do {
            return try KeyAdministration.unlock(databasePath: path, with: material).keys.openedBy?.id
        } catch StoreError.wrongKey {
            return nil
        }
    }

    func opened(_ passphrase: String) throws -> UInt64? { try opened(SlotFixture.material(passphrase)) }

    /// The same question of every file in the folder, each taken for the only copy of the sidecar.
    func openedFromAnyFile(_ passphrase: String) throws -> [String] {
        let other = try TemporaryFolder()
        return try folder.names().filter { name in
            let target = SidecarFiles(databasePath: other.file(name))
            try FileManager.default.copyItem(atPath: folder.file(name), toPath: target.mainPath)
            do {
                let administration = try KeyAdministration.unlock(
                    databasePath: target.databasePath, with: SlotFixture.material(passphrase))
                return administration.keys.openedBy != nil
            } catch is StoreError {
                return false
            }
        }
    }

    /// Whether any file in the folder has these bytes.
    func holds(_ bytes: [UInt8]) throws -> Bool {
        let digits = Data(Hex.text(bytes).utf8)
        return try folder.names().contains { name in
            let content = try Data(contentsOf: URL(filePath: folder.file(name)))
            return content.range(of: digits) != nil || content.range(of: Data(bytes)) != nil
        }
    }
}
