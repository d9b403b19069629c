import StorePlatform

/// The records of the slots scheme, version 2 of the format.
extension SidecarParser {
    /// Reads the slots and the data key.
    mutating func slotsScheme(_ store: StoreRecord) throws(SidecarSyntaxError) -> Sidecar.Scheme {
        let table = try slotTable()
        let dataKey = try dataKeyRecord(epoch: store.epoch)
        return .slots(SlottedKeys(table: table, dataKey: dataKey))
    }

    private mutating func slotTable() throws(SidecarSyntaxError) -> SlotTable {
        try recordName("slots")
        try scanner.literal(",\"next_id\":")
        let nextID = try scanner.number("next_id")
        try endOfObject("}")
        return try slotRecords("slot", nextID: nextID)
    }

    /// Reads the slots of a master key.
    mutating func slotRecords(_ record: String, nextID: UInt64) throws(SidecarSyntaxError) -> SlotTable {
        var slots: [Keyslot] = []
        while scanner.startsWith("{\"record\":\"\(record)\"") {
            let line = scanner.line
            guard slots.count < Limits.keySlots else { throw .outOfRange(line: line, field: record) }
            let slot = try slotRecord(record)
            let isAscending = slot.id < nextID && slots.last.map { $0.id < slot.id } ?? true
            guard isAscending else { throw .outOfRange(line: line, field: "id") }
            slots.append(slot)
            // Each slot may be within its bounds although all of them together would occupy an opener for minutes.
            guard SlotTable.isAffordable(slots) else { throw .outOfRange(line: line, field: "kdf") }
        }
        guard let table = SlotTable(slots: slots, nextID: nextID) else { throw scanner.malformed("record \(record)") }
        return table
    }

    private mutating func slotRecord(_ record: String) throws(SidecarSyntaxError) -> Keyslot {
        try recordName(record)
        try scanner.literal(",\"id\":")
        let id = try scanner.number("id")
        try scanner.literal(",\"kind\":\"")
        let kindName = try scanner.word("kind")
        guard let kind = Keyslot.Kind(rawValue: kindName) else { throw scanner.malformed("kind") }
        try scanner.literal("\"")
        let created = try creation()
        try scanner.literal(",\"label\":\"")
        let label = try scanner.label()
        try scanner.literal("\",\"kdf\":\"")
        let derivation = try derivation()
        guard kind.allows(derivation) else { throw scanner.malformed("kdf: one that the kind allows") }
        let salt = try salt()
        let wrapped = try wrappedKey()
        try endOfObject("}")
        return Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt, wrapped: wrapped)
    }

    /// Reads the name of a derivation and its parameters, and checks their bounds.
    private mutating func derivation() throws(SidecarSyntaxError) -> SlotDerivation {
        let name = try scanner.word("kdf")
        try scanner.literal("\"")
        let derivation: SlotDerivation
        switch name {
        case "hkdf": derivation = .hkdf
        case "scrypt":
            derivation = .scrypt(
                log2Rounds: try parameter("log2_n"), blockSize: try parameter("r"), lanes: try parameter("p"))
        case "argon2id":
            derivation = .argon2id(
                memoryKiB: try parameter("memory_kib"), iterations: try parameter("iterations"),
                lanes: try parameter("lanes"))
        default: throw scanner.malformed("kdf")
        }
        if let field = derivation.fieldOutOfBounds { throw .outOfRange(line: scanner.line, field: field) }
        return derivation
    }

    private mutating func parameter(_ field: String) throws(SidecarSyntaxError) -> Int {
        try scanner.literal(",\"\(field)\":")
        return try integer(field) { $0 >= 0 }
    }

    private mutating func dataKeyRecord(epoch: UInt64) throws(SidecarSyntaxError) -> SlottedKeys.Current {
        try recordName("data-key")
        try scanner.literal(",\"epoch\":\(epoch)")
        let created = try creation()
        try scanner.literal(",\"origin\":\"")
        let originName = try scanner.word("origin")
        guard let origin = SlottedKeys.Origin(rawValue: originName) else { throw scanner.malformed("origin") }
        try scanner.literal("\"")
        let wrapped = try wrappedKey()
        try endOfObject("}")
        return SlottedKeys.Current(created: created, origin: origin, wrapped: wrapped)
    }

    mutating func creation() throws(SidecarSyntaxError) -> UInt64 {
        try scanner.literal(",\"created\":")
        return try scanner.number("created", atLeast: 0)
    }

    mutating func wrappedKey() throws(SidecarSyntaxError) -> WrappedKey {
        try scanner.literal(",\"nonce\":\"")
        let nonce = try scanner.hex(byteCount: WrappedKey.nonceBytes, "nonce")
        try scanner.literal("\",\"wrapped\":\"")
        let sealed = try scanner.hex(byteCount: WrappedKey.sealedBytes, "wrapped")
        try scanner.literal("\"")
        return WrappedKey(nonce: nonce, sealed: sealed)
    }
}
