import KeyCustody
import StoreCrypto

/// Key material that several connections of a pool refer to.
package final class KeyMaterialBox: Sendable {
    let material: KeyMaterial
    /// The kind of slot that it gets in a store that is created with it; nil leaves that to its form.
    let slotKind: KeySlot.Kind?

    package init(_ material: consuming KeyMaterial, slotKind: KeySlot.Kind? = nil) {
        self.material = material
        self.slotKind = slotKind
    }

    /// Asks a key source.
    package convenience init(from source: KeySource) throws {
        self.init(try source.read(), slotKind: source.slotKind)
    }

    /// The secret as the first slot of a new store.
    func newSlot() throws -> NewSlot {
        switch material {
        case .passphrase(let passphrase):
            try NewSlot(.passphrase(Passphrase(passphrase.secret.copy())), kind: slotKind)
        case .rawKey(let key): try NewSlot(.rawKey(RawKey(key.secret.copy())), kind: slotKind)
        }
    }

    /// The raw key, as the data key that it may be; nil of a passphrase.
    func rawDataKey() throws -> DataKey? {
        switch material {
        case .passphrase: nil
        case .rawKey(let key): try DataKey(key.secret.copy())
        }
    }

    /// Whether both hold the same key, in a time that does not depend on it.
    func isEqual(to other: KeyMaterialBox) -> Bool {
        if self === other { return true }
        switch (material.isPassphrase, other.material.isPassphrase) {
        case (true, true), (false, false):
            return withSecret { mine in other.withSecret { mine.isEqual(to: $0) } }
        default: return false
        }
    }

    /// Lends the passphrase's bytes, or the raw key's.
    func withSecret<Result>(_ body: (borrowing SecretBytes) -> Result) -> Result {
        switch material {
        case .passphrase(let passphrase): body(passphrase.secret)
        case .rawKey(let key): body(key.secret)
        }
    }
}
