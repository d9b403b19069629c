import KeyCustody
import StoreCrypto

/// A recovery key that was just added to a store: 256 random bits as text to print.
///
/// The text lies in locked memory, can be shown once, and is wiped when the value goes away. Nothing can show it again;
/// the store keeps only what it opens.
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
    /// - Parameter body: Gets four lines of ASCII, each ended by a line feed. The bytes must not outlive the call; what it
    ///   copies, it has to wipe.
    public consuming func show<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try text.withBytes { (bytes: UnsafeRawBufferPointer) in try body(bytes) }
    }

    /// What may be printed where the key must not be.
    public borrowing func describe() -> String { "NewRecoveryKey(slot \(slot.number))" }
}
