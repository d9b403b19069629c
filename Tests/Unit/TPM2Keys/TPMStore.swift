import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody
@testable import TPM2Keys

/// The sidecar of a store with a key file, which opens it without a TPM.
final class TPMStore {
    let folder: URL
    var path: String { folder.appending(path: "app.db").path }
    var files: SidecarFiles { SidecarFiles(databasePath: path) }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tpm-store-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let made = try Sidecar.creating(settings: .plaintextHeader, slots: [NewSlot(Self.rawKey())])
        try files.write(made.sidecar.next(.ready), keys: made.keys)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    static func rawKey() throws -> Secret { .rawKey(try RawKey(bytes: [UInt8](0..<32))) }

    static func unlock(_ path: String) throws -> KeyAdministration {
        try KeyAdministration.unlock(databasePath: path, with: rawKey())
    }

    func opens(_ secret: Secret) throws -> Bool {
        do {
            _ = try KeyAdministration.unlock(databasePath: path, with: secret)
            return true
        } catch let error as StoreError where error.code == .wrongKey {
            return false
        }
    }

    /// Both copies of the sidecar.
    func contents() throws -> [Data] {
        try [files.mainPath, files.backupPath].map { try Data(contentsOf: URL(filePath: $0)) }
    }
}

/// A change of the keyslot of a TPM, which is slot 2.
enum TPMSlotChange: String, Codable, CaseIterable, Sendable {
    case add, change, remove

    func run(_ path: String, at address: String) throws {
        let administration = try TPMStore.unlock(path)
        switch self {
        case .add: try administration.add(Self.slot(at: address))
        case .change: try administration.change(2, to: Self.slot([7], at: address))
        case .remove: try administration.remove(2)
        }
    }

    private static func slot(_ pcrs: [Int] = [], at address: String) throws -> NewSlot {
        try NewSlot(KeySource.token(TPM2Device(pcrs: pcrs, address: address)).read())
    }

    /// The conditions of the keyslot before and after it; nil if there is none.
    var conditions: (before: String?, after: String?) {
        switch self {
        case .add: (nil, "this machine")
        case .change: ("this machine", "PCR 7")
        case .remove: ("this machine", nil)
        }
    }

    /// Makes the state before it.
    func prepare(_ store: TPMStore, at address: String) throws {
        if self != .add { try TPMSlotChange.add.run(store.path, at: address) }
    }
}
