import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform

/// The key of a store, read once and used for several openings: descriptors, commands and users answer only once.
package final class UnlockedKey: Sendable {
    private let material: KeyMaterial
    private let name: String
    /// The kind of keyslot that the key gets in a new store.
    package let slotKind: KeySlot.Kind?

    /// - Throws: What the source throws.
    package init(_ source: KeySource) throws {
        name = source.description
        slotKind = source.slotKind
        material = try source.read()
    }

    /// A recovery key, in the form in which a program reads it.
    package init(_ recovery: borrowing RecoveryKey) throws {
        name = "recovery key"
        slotKind = .recovery
        material = .passphrase(try Passphrase(recovery.text()))
    }

    /// A known key, to be used without derivation.
    package init(raw key: DataKey) throws {
        name = "data key"
        slotKind = nil
        material = .rawKey(try RawKey(key.withSecret { $0.copy() }))
    }

    /// The same key as a source that can be read repeatedly.
    package var source: KeySource {
        let source: KeySource =
            material.isPassphrase
            ? .custom(name) { [self] in try passphraseCopy() } : .customRawKey(name) { [self] in try rawKeyCopy() }
        return slotKind.map { source.answering(for: $0) } ?? source
    }

    /// The keys of a sidecar that this key opens, or nil when it opens none of its keyslots.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try material.unlock(claimed) }

    /// Whether it is a passphrase and not a raw key.
    package var isPassphrase: Bool { material.isPassphrase }

    /// A keyslot that this key opens.
    package func newSlot(kind: KeySlot.Kind, label: SlotLabel, derivation: SlotDerivation?) throws -> NewSlot {
        try NewSlot(copy(), kind: kind, label: label, derivation: derivation)
    }

    /// Runs an opening with the key. When it is refused and resembles a recovery key, the error says what is wrong with
    /// it.
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

    /// What is wrong with a recovery key; nil for a valid one, and for a text that does not resemble one.
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

    /// Passes the key to a closure.
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

    /// Sets the key on a connection that is being prepared.
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

    // Each is called only where the other kind was ruled out; a raw key is never a passphrase.
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

/// How a tool gets its key: it is read once all checks that need no key have passed.
package struct ToolKey: Sendable {
    /// Names the source.
    package let source: @Sendable () throws -> KeySource
    /// Reads it.
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
