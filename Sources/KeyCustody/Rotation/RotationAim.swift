import StoreCrypto
import StorePlatform

/// What a rotation renews.
package enum RotationAim: Sendable {
    /// A store with slots: data key and salt, under the same master key. No slot changes.
    case newDataKey
    /// A store with slots: master key, data key and salt. The slots that these secrets open are kept, each under its number;
    /// the others are gone afterwards (``RotationProposal/droppedSlots``).
    case compromised(kept: [RotationSecret])
    /// A direct store: its passphrase or raw key, and with it the data key, and the salt.
    case direct(RotationSecret)
}

/// A passphrase or raw key that goes through a rotation, shared by those that work on it.
package final class RotationSecret: Sendable {
    package let material: KeyMaterial

    package init(_ material: consuming KeyMaterial) { self.material = material }

    /// Asks a source for it.
    ///
    /// - Throws: What reading a ``KeySource`` throws: `keyMissing` when it gives none, `invalidKey` when it is too long.
    package convenience init(from source: KeySource) throws { self.init(try source.read()) }
}
