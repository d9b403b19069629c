import CipherStore
import KeyCustody

extension StoreKeys {
    /// Generates a random key, splits it in shares of which some open the store, and adds a slot for it. The key itself is
    /// not shown: the slot is that of a recovery key, and the shares are all that opens it.
    ///
    /// ```swift
    /// let shares = try store.keys.addRecoveryShares(count: 5, threshold: 3, label: "board")
    /// try shares.show { share in try share.withText { try printer.print(share.caption, $0) } }
    /// ```
    /// - Parameters:
    ///   - count: The number of shares, 2 to 16.
    ///   - threshold: How many of them open the store, 2 to `count`.
    ///   - label: The owner's label for the slot.
    /// - Returns: The shares, which can be shown once. If they could not be shown, remove their slot.
    /// - Throws: `StoreError` `invalidKey` for other numbers; as `add(_:label:derivation:)`.
    public func addRecoveryShares(count: Int, threshold: Int, label: String = "") throws -> NewRecoveryShares {
        let (key, shares) = try RecoveryShare.makeKey(count: count, threshold: threshold)
        let source = KeySource(giving: Secret.rawKey(key).with(slotKind: .recovery), name: RecoveryShareSet.sourceName)
        return NewRecoveryShares(slot: try add(source, label: label), shares: shares)
    }
}

/// The shares of a recovery key that was just added to a store.
///
/// They are in locked memory, can be shown once, and are wiped at deinit. The store keeps only the keyslot.
public struct NewRecoveryShares: ~Copyable, Sendable {
    /// The slot that they open.
    public let slot: StoreKeys.Slot
    private let shares: [RecoveryShare]

    init(slot: StoreKeys.Slot, shares: [RecoveryShare]) {
        self.slot = slot
        self.shares = shares
    }

    /// Shows the shares in the order of their numbers, and wipes them.
    public consuming func show(_ body: (RecoveryShare) throws -> Void) rethrows { try shares.forEach(body) }

    /// A description without the shares.
    public borrowing func describe() -> String { "NewRecoveryShares(slot \(slot.number))" }
}
