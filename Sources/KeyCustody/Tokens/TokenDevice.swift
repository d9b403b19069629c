import StoreCrypto
import StorePlatform

/// A keeper of the secrets of keyslots outside of the files of a store: a TPM, a PKCS#11 token or a plugin.
///
/// Each such keyslot has a random secret of 32 bytes. ``wrap(_:for:replacing:)`` makes a ``SlotToken`` of it, and only
/// the device makes the secret of the token again. All calls come from the thread that opens or changes the store.
package protocol TokenDevice: Sendable {
    /// The kind of its keyslots; no keyslot of another kind is tried.
    var kind: Keyslot.Kind { get }
    /// Its name in descriptions and errors, such as `plugin "age"`.
    var name: String { get }

    /// Whether it may have the secret of a token, from the token alone. A token of another device is not tried, so that
    /// no person is asked needlessly.
    func mayOpen(_ token: SlotToken) -> Bool

    /// Whether a new secret can be wrapped for the holder of a token without asking anything, as with a public key.
    func wrapsAlone(_ former: SlotToken) -> Bool

    /// Wraps a secret of 32 bytes.
    ///
    /// - Parameters:
    ///   - store: The store of the slot.
    ///   - former: The token of the same slot that is replaced, whose holder keeps the slot; nil for a new slot.
    /// - Throws: `StoreError` `keyMissing` when the device is absent, `wrongKey` for a wrong PIN, `invalidKey`.
    func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret

    /// The secret of a token; nil when the token is not of this kind of device.
    ///
    /// - Throws: ``OtherDevice``; as ``wrap(_:for:replacing:)``.
    func unwrap(_ token: SlotToken, of slot: TokenSlot) throws -> SecretBytes?
}

/// The error of a device whose token is of another device of its kind, as of the TPM of another machine: other slots of the
/// kind may still open.
package struct OtherDevice: Error {
    package let error: StoreError

    package init(_ error: StoreError) { self.error = error }
}

/// The result of wrapping a secret.
package struct WrappedSecret: Sendable {
    package let token: SlotToken
    /// Whether the device can unwrap it here; otherwise the new slot cannot be tested before it is written.
    package let isTestable: Bool

    package init(_ token: SlotToken, isTestable: Bool = true) {
        self.token = token
        self.isTestable = isTestable
    }
}

/// The slot whose secret a device is asked for.
package struct TokenSlot: Hashable, Sendable {
    package let store: StoreID
    /// The number of the slot; 0 while it is being made.
    package let number: UInt64
    package let label: SlotLabel
}
