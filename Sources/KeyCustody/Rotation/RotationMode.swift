/// What a rotation renews.
package enum RotationMode: Sendable {
    /// A store with slots: data key and salt, under the same master key. No slot changes.
    case newDataKey
    /// A store with slots: master key, data key and salt. The slots that these secrets open are kept, each under its number;
    /// the others are gone afterwards (``RotationProposal/droppedSlots``).
    case compromised(kept: [Secret])
    /// A direct store: its passphrase or raw key, and with it the data key, and the salt.
    case direct(Secret)
}
