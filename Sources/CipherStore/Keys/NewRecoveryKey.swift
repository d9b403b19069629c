import KeyCustody
import StoreCrypto

/// A recovery key that was just added to a store: 256 random bits as text to print.
///
/// The text is in locked memory, can be shown once, and is wiped at deinit. It cannot be shown again; the store keeps
/// only the keyslot that it opens.
public struct NewRecoveryKey: ~Copyable, Sendable {
    /// The slot that it opens.
    public let slot: StoreKeys.Slot
    private let text: SecretBytes

    init(slot: StoreKeys.Slot, text: SecretBytes) {
        self.slot = slot
        self.text = text
    }

    /// Shows the text, and wipes it.
    ///
    /// - Parameter body: Gets four lines of ASCII, each ended by a line feed. The bytes must not outlive the call, and
    ///   `body` must wipe its copies.
    public consuming func show<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try text.withBytes { (bytes: UnsafeRawBufferPointer) in try body(bytes) }
    }

    /// A description without the key.
    public borrowing func describe() -> String { "NewRecoveryKey(slot \(slot.number))" }
}
