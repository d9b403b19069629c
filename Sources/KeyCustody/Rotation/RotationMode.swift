/// The keys that a rotation renews.
package enum RotationMode: Sendable {
    /// A store with slots: data key and salt, under the same master key. No slot changes.
    case newDataKey
    /// A store with slots: master key, data key and salt. The slots that these secrets open are kept, each with its
    /// number; the others are removed (``RotationProposal/droppedSlots``).
    case compromised(kept: [Secret])
    /// A direct store: its passphrase or raw key, the data key made from it, and the salt.
    case direct(Secret)
}
