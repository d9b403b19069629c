import CipherStore
import Foundation
import KeyCustody
import StoreCrypto

/// The key of a store, asked for once and used for several openings: descriptors, commands and people answer once.
final class UnlockedKey: Sendable {
    private let material: KeyMaterial
    private let name: String
    /// The kind of slot that the key gets in a new store.
    private let slotKind: KeySlot.Kind?

    /// - Throws: What the source throws.
    init(_ source: KeySource, _ console: Console) throws {
        if let warning = source.warning { console.warn(warning) }
        name = source.description
        slotKind = source.slotKind
        material = try source.read()
    }

    /// A key that is known already, to be used without derivation.
    init(raw key: DataKey) throws {
        name = "data key"
        slotKind = nil
        material = .rawKey(try RawKey(key.withSecret { $0.copy() }))
    }

    /// The same key as a source that answers as often as it is asked.
    var source: KeySource {
        let source: KeySource =
            material.isPassphrase
            ? .custom(name) { [self] in try passphraseCopy() } : .customRawKey(name) { [self] in try rawKeyCopy() }
        return slotKind.map { source.answering(for: $0) } ?? source
    }

    /// The data key under a salt; a passphrase is derived.
    func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try material.dataKey(salt: salt, settings: settings)
    }

    /// The keys of what a sidecar claims; nil when the key opens no slot of it.
    func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try material.unlock(claimed) }

    /// Gives the key to a connection that is being prepared by hand.
    func give(to db: Database) throws {
        switch material {
        case .passphrase(let passphrase):
            try passphrase.secret.withBytes { bytes in
                guard let start = bytes.baseAddress else { return }
                // Not a copy: the bytes stay in locked memory.
                let borrowed = UnsafeMutableRawPointer(mutating: start)
                try db.usePassphrase(Data(bytesNoCopy: borrowed, count: bytes.count, deallocator: .none))
            }
        case .rawKey(let key): try db.useRawKey(key)
        }
    }

    // Each is asked for only where the other kind was ruled out; a raw key is no passphrase whatever happens.
    private func passphraseCopy() throws -> Passphrase {
        switch material {
        case .passphrase(let passphrase): try Passphrase(passphrase.secret.copy())
        case .rawKey: throw UsageError("The key is a raw key.", hint: "Give a passphrase.")
        }
    }

    private func rawKeyCopy() throws -> RawKey {
        switch material {
        case .passphrase: throw UsageError("The key is a passphrase.", hint: "Give a raw key.")
        case .rawKey(let key): try RawKey(key.secret.copy())
        }
    }
}
