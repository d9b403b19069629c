import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform

/// The key of a store, asked for once and used for several openings: descriptors, commands and people answer once.
package final class UnlockedKey: Sendable {
    private let material: KeyMaterial
    private let name: String
    /// The kind of slot that the key gets in a new store.
    package let slotKind: KeySlot.Kind?

    /// - Throws: What the source throws.
    package init(_ source: KeySource) throws {
        name = source.description
        slotKind = source.slotKind
        material = try source.read()
    }

    /// A recovery key as a program that reads it gets it.
    package init(_ recovery: borrowing RecoveryKey) throws {
        name = "recovery key"
        slotKind = .recovery
        material = .passphrase(try Passphrase(recovery.text()))
    }

    /// A key that is known already, to be used without derivation.
    package init(raw key: DataKey) throws {
        name = "data key"
        slotKind = nil
        material = .rawKey(try RawKey(key.withSecret { $0.copy() }))
    }

    /// The same key as a source that answers as often as it is asked.
    package var source: KeySource {
        let source: KeySource =
            material.isPassphrase
            ? .custom(name) { [self] in try passphraseCopy() } : .customRawKey(name) { [self] in try rawKeyCopy() }
        return slotKind.map { source.answering(for: $0) } ?? source
    }

    /// The keys of a sidecar that this key opens, or nil when it opens none of its slots.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try material.unlock(claimed) }

    /// Whether it is a passphrase, and no raw key.
    package var isPassphrase: Bool { material.isPassphrase }

    /// A key slot that this key opens.
    package func newSlot(kind: KeySlot.Kind, label: SlotLabel, derivation: SlotDerivation?) throws -> NewSlot {
        try NewSlot(copy(), kind: kind, label: label, derivation: derivation)
    }

    /// Opens something with the key. Where it is refused and reads like a recovery key, the error says what is wrong with it.
    package func explainingRefusal<Success>(_ open: () throws -> Success) throws -> Success {
        do {
            return try open()
        } catch let error as StoreError where error.code == .wrongKey {
            guard let fault = recoveryKeyFault else { throw error }
            throw StoreError(
                .wrongKey, what: error.what, why: "It reads like a recovery key, but \(fault).",
                remedy: "Compare it with what was printed; if it is another key, check that one.")
        }
    }

    /// What is wrong with a recovery key; nil for a right one, and for what does not read like one.
    private var recoveryKeyFault: RecoveryKey.ReadingError? {
        switch material {
        case .passphrase(let passphrase): passphrase.secret.withBytes { Self.fault($0) }
        case .rawKey: nil
        }
    }

    private static func fault(_ text: UnsafeRawBufferPointer) -> RecoveryKey.ReadingError? {
        do throws(RecoveryKey.ReadingError) {
            _ = try RecoveryKey(reading: text)
            return nil
        } catch {
            return error == .otherText ? nil : error
        }
    }

    /// Lends the key.
    package func withMaterial<Result>(_ body: (borrowing KeyMaterial) throws -> Result) rethrows -> Result {
        try body(material)
    }

    private func copy() throws -> KeyMaterial {
        switch material {
        case .passphrase(let passphrase): .passphrase(try Passphrase(passphrase.secret.copy()))
        case .rawKey(let key): .rawKey(try RawKey(key.secret.copy()))
        }
    }

    /// The data key under a salt; a passphrase is derived.
    func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try material.dataKey(salt: salt, settings: settings)
    }

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
        case .rawKey: throw Self.otherKind
        }
    }

    private func rawKeyCopy() throws -> RawKey {
        switch material {
        case .passphrase: throw Self.otherKind
        case .rawKey(let key): try RawKey(key.secret.copy())
        }
    }

    private static let otherKind = StoreError(
        .invalidKey, what: "The key is not of the kind that was asked for.",
        why: "One of passphrase and raw key was asked for, and the key is the other.",
        remedy: "This is a defect of this program: please report it.")
}

/// How a tool comes by its key: asked for at the moment when all that needs no key was found in order.
package struct ToolKey: Sendable {
    /// Names the source.
    package let source: @Sendable () throws -> KeySource
    /// Asks it.
    package let read: @Sendable (KeySource) throws -> UnlockedKey

    package init(
        source: @escaping @Sendable () throws -> KeySource, read: @escaping @Sendable (KeySource) throws -> UnlockedKey
    ) {
        self.source = source
        self.read = read
    }

    init(_ source: KeySource) { self.init(source: { source }, read: { try UnlockedKey($0) }) }

    func unlocked() throws -> UnlockedKey { try read(source()) }
}
