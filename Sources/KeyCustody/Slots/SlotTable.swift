import StorePlatform

/// The keyslots of a store: at most 32, in the order of their numbers.
package struct SlotTable: Hashable, Sendable {
    /// In the order of their numbers.
    package private(set) var slots: [Keyslot] = []
    /// The number of the next slot. The number of a removed slot is not used again, so that a log stays unambiguous.
    package private(set) var nextID: UInt64 = 1

    init() {}

    /// The table that a sidecar contains. Nil when there is no slot or too many, when the numbers are not ascending and
    /// below the next one, when trying all slots would take too long, or when their tokens are too long.
    init?(slots: [Keyslot], nextID: UInt64) {
        guard (1...CustodyLimits.keySlots).contains(slots.count) else { return nil }
        guard zip(slots, slots.dropFirst()).allSatisfy({ $0.id < $1.id }) else { return nil }
        guard slots.allSatisfy({ (1..<nextID).contains($0.id) }), Self.isAffordable(slots),
            Self.hasRoomForTokens(slots)
        else { return nil }
        self.slots = slots
        self.nextID = nextID
    }

    /// Whether a wrong passphrase, which is tried on every slot, takes no more than a bounded time.
    static func isAffordable(_ slots: [Keyslot]) -> Bool {
        slots.reduce(0) { $0 + $1.derivation.workBytes } <= CustodyLimits.slotWorkBytes
    }

    /// Whether a rotation that renews all slots has room in the sidecar for the tokens of both tables.
    static func hasRoomForTokens(_ slots: [Keyslot]) -> Bool {
        slots.reduce(0) { $0 + ($1.token?.blob.count ?? 0) } <= CustodyLimits.allTokensBytes
    }

    /// - Throws: ``StoreError`` `slotNotFound`.
    package func find(_ id: UInt64) throws(StoreError) -> Keyslot { slots[try index(of: id)] }

    /// Called before a key is made or requested for which there would be no slot.
    ///
    /// - Throws: ``StoreError`` `tooManySlots`.
    package func requireRoom() throws(StoreError) {
        guard slots.count < CustodyLimits.keySlots else {
            throw Self.tooMany("It has \(slots.count) slots, which is the most.", "Remove a slot that nobody needs.")
        }
    }

    /// Adds a slot, which must have the number ``nextID``.
    ///
    /// - Throws: ``StoreError`` `tooManySlots`.
    mutating func add(_ slot: Keyslot) throws(StoreError) {
        try requireRoom()
        try checkCost(slots + [slot])
        slots.append(slot)
        nextID = slot.id + 1
    }

    /// Replaces the slot that has the same number.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`, `tooManySlots`.
    mutating func replace(_ slot: Keyslot) throws(StoreError) {
        var changed = slots
        changed[try index(of: slot.id)] = slot
        try checkCost(changed)
        slots = changed
    }

    /// Checks whether a slot can be removed.
    ///
    /// - Throws: As ``remove(_:)``.
    package func requireRemovable(_ id: UInt64) throws(StoreError) {
        var copy = self
        try copy.remove(id)
    }

    /// Removes a slot.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`; `lastSlot` when no other could be used on this machine.
    mutating func remove(_ id: UInt64) throws(StoreError) {
        let position = try index(of: id)
        guard slots.contains(where: { $0.id != id && $0.derivation.isAvailable }) else {
            throw StoreError(
                .lastSlot, what: "Keyslot \(id) cannot be removed.",
                why: "No other slot of the store could be used: no key would open it.",
                remedy: "Add a slot first, or change this one.")
        }
        slots.remove(at: position)
    }

    private func index(of id: UInt64) throws(StoreError) -> Int {
        guard let position = slots.firstIndex(where: { $0.id == id }) else {
            let numbers = slots.map { String($0.id) }.joined(separator: ", ")
            throw StoreError(
                .slotNotFound, what: "There is no keyslot \(id).", why: "The store has these: \(numbers).",
                remedy: "Give the number of one of them.")
        }
        return position
    }

    private func checkCost(_ slots: [Keyslot]) throws(StoreError) {
        guard Self.hasRoomForTokens(slots) else {
            throw Self.tooMany(
                "The tokens of its slots would have more than \(CustodyLimits.allTokensBytes) bytes together.",
                "Remove a slot that nobody needs.")
        }
        guard !Self.isAffordable(slots) else { return }
        throw Self.tooMany(
            "Trying all its slots would take too long for an opener with a wrong passphrase.",
            "Choose a cheaper derivation, or remove a slot that nobody needs.")
    }

    private static func tooMany(_ why: String, _ remedy: String) -> StoreError {
        StoreError(.tooManySlots, what: "The store cannot have this keyslot.", why: why, remedy: remedy)
    }
}
