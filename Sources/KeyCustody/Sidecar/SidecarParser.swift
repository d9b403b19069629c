import StoreCrypto
import StorePlatform

/// The grammar of the sidecar (`Docs/Formats/Sidecar.md`), line by line.
struct SidecarParser {
    private let bytes: [UInt8]
    var scanner: SidecarScanner

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        scanner = SidecarScanner(bytes)
    }

    /// Reads the beginning of the first line, up to the version number.
    mutating func version() throws(SidecarSyntaxError) -> UInt64 {
        try scanner.literal("{\"format\":\"\(Sidecar.formatName)\",\"version\":")
        let version = try scanner.number("version")
        // A later version could continue with either. Any other character is a bit flip, not a later version.
        guard scanner.startsWith("}") || scanner.startsWith(",") else { throw scanner.malformed("the number's end") }
        return version
    }

    /// Reads everything after the version number.
    mutating func records(version: UInt64) throws(SidecarSyntaxError) -> UnauthenticatedSidecar {
        guard Sidecar.versions.contains(version) else { throw .versionAhead(version) }
        try endOfObject("}")
        let store = try storeRecord(scheme: version == Sidecar.directVersion ? "direct" : "slots")
        let (salt, settings) = try cipherRecord()
        let scheme = version == Sidecar.directVersion ? .direct : try slotsScheme(store)
        var sidecar = Sidecar(
            storeID: store.id, state: store.state, epoch: store.epoch, generation: store.generation,
            scheme: scheme, salt: salt, settings: settings)
        sidecar.pending = try pendingEpoch(of: sidecar)
        // Version 3 is that of stores with tokens alone, and only their slots need it: a store has one version.
        guard sidecar.formatVersion == version else { throw scanner.malformed("the slots of version \(version)") }
        let keyCheck = try keyCheckRecord("key-check")
        let pendingKeyCheck = sidecar.successorHasOwnKeys ? try keyCheckRecord("pending-key-check") : nil
        let pending = sidecar.pending == nil ? nil : try code("pending-mac")
        let mac = try code("mac")
        guard scanner.isAtEnd else { throw scanner.malformed("the end of the file") }
        let seal = UnauthenticatedSidecar.Seal(
            keyCheck: keyCheck, pendingKeyCheck: pendingKeyCheck, pending: pending, mac: mac)
        return UnauthenticatedSidecar(claimed: sidecar, bytes: bytes, seal: seal)
    }

    /// Reads a line that authenticates everything before it.
    private mutating func code(_ name: String) throws(SidecarSyntaxError) -> UnauthenticatedSidecar.Code {
        let coveredBytes = scanner.position
        try scanner.literal("{\"\(name)\":\"")
        let value = try scanner.hex(byteCount: SidecarSeal.macBytes, name)
        try endOfObject("\"}")
        return UnauthenticatedSidecar.Code(value: value, coveredBytes: coveredBytes)
    }

    mutating func endOfObject(_ text: String) throws(SidecarSyntaxError) {
        try scanner.literal(text)
        try scanner.endOfLine()
    }

    /// Reads the beginning of a record.
    mutating func recordName(_ expected: String) throws(SidecarSyntaxError) {
        try scanner.literal("{\"record\":\"")
        guard try scanner.word("record") == expected else { throw scanner.malformed("record \(expected)") }
        try scanner.literal("\"")
    }

    struct StoreRecord {
        let id: StoreID
        let state: Sidecar.State
        let epoch: UInt64
        let generation: UInt64
    }

    private mutating func storeRecord(scheme: String) throws(SidecarSyntaxError) -> StoreRecord {
        try recordName("store")
        try scanner.literal(",\"id\":\"")
        let idBytes = try scanner.hex(byteCount: StoreID.byteCount, "id")
        guard let id = StoreID(bytes: idBytes) else { throw scanner.malformed("id") }
        try scanner.literal("\",\"state\":\"")
        let stateName = try scanner.word("state")
        guard let state = Sidecar.State(rawValue: stateName) else { throw scanner.malformed("state") }
        try scanner.literal("\",\"epoch\":")
        let epoch = try scanner.number("epoch")
        try scanner.literal(",\"generation\":")
        let generation = try scanner.number("generation")
        try scanner.literal(",\"scheme\":\"\(scheme)")
        try endOfObject("\"}")
        return StoreRecord(id: id, state: state, epoch: epoch, generation: generation)
    }

    private mutating func cipherRecord() throws(SidecarSyntaxError) -> (Salt, CipherSettings) {
        try recordName("cipher")
        let salt = try salt()
        try scanner.literal(",\"page_bytes\":")
        let pageBytes = try integer("page_bytes") { CustodyLimits.pageBytes.contains($0) && $0.nonzeroBitCount == 1 }
        try scanner.literal(",\"plaintext_header_bytes\":")
        let headerBytes = try integer("plaintext_header_bytes") { $0 == 0 || $0 == 32 }
        try scanner.literal(",\"kdf_rounds\":")
        let rounds = try integer("kdf_rounds") { CustodyLimits.kdfRounds.contains($0) }
        try scanner.literal(",\"kdf_hash\":\"")
        let kdfHash = try hash("kdf_hash")
        try scanner.literal("\",\"hmac_hash\":\"")
        let hmacHash = try hash("hmac_hash")
        try endOfObject("\"}")
        let settings = CipherSettings(
            pageBytes: pageBytes, plaintextHeaderBytes: headerBytes, kdfRounds: rounds, kdfHash: kdfHash,
            hmacHash: hmacHash)
        return (salt, settings)
    }

    mutating func salt() throws(SidecarSyntaxError) -> Salt {
        try scanner.literal(",\"salt\":\"")
        let bytes = try scanner.hex(byteCount: Salt.byteCount, "salt")
        guard let salt = try? Salt(bytes: bytes) else { throw scanner.malformed("salt") }
        try scanner.literal("\"")
        return salt
    }

    private mutating func keyCheckRecord(_ record: String) throws(SidecarSyntaxError) -> [UInt8] {
        try recordName(record)
        try scanner.literal(",\"value\":\"")
        let keyCheck = try scanner.hex(byteCount: SidecarSeal.keyCheckBytes, "value")
        try endOfObject("\"}")
        return keyCheck
    }

    mutating func integer(
        _ field: String, _ isAllowed: (Int) -> Bool
    ) throws(SidecarSyntaxError) -> Int {
        let value = Int(try scanner.number(field, atLeast: 0))
        guard isAllowed(value) else { throw .outOfRange(line: scanner.line, field: field) }
        return value
    }

    private mutating func hash(_ field: String) throws(SidecarSyntaxError) -> HashAlgorithm {
        let name = try scanner.word(field)
        guard let hash = HashAlgorithm(rawValue: name) else { throw scanner.malformed(field) }
        return hash
    }
}

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
            guard slots.count < CustodyLimits.keySlots else { throw .outOfRange(line: line, field: record) }
            let slot = try slotRecord(record)
            let isAscending = slot.id < nextID && slots.last.map { $0.id < slot.id } ?? true
            guard isAscending else { throw .outOfRange(line: line, field: "id") }
            slots.append(slot)
            // Each slot may be within its bounds although all of them together would occupy an opener for minutes.
            guard SlotTable.hasRoomForTokens(slots) else { throw .outOfRange(line: line, field: "token") }
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
        let token = kind.isToken ? try token(of: kind) : nil
        let salt = try salt()
        let wrapped = try wrappedKey()
        try endOfObject("}")
        return Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt, wrapped: wrapped,
            token: token)
    }

    /// Reads what a device needs to give the secret of a slot.
    private mutating func token(of kind: Keyslot.Kind) throws(SidecarSyntaxError) -> SlotToken {
        try scanner.literal(",\"name\":\"")
        let name = try scanner.label()
        guard kind != .plugin || PluginName.isValid(name.text) else { throw scanner.malformed("the name of a plugin") }
        try scanner.literal("\",\"token\":\"")
        let blob = try scanner.hex(upTo: CustodyLimits.tokenBytes, "token")
        try scanner.literal("\"")
        guard let token = SlotToken(name: name, blob: blob) else { throw scanner.malformed("token") }
        return token
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

/// The records of the next epoch, in both versions of the format.
extension SidecarParser {
    /// Reads them exactly when the state says that a rotation is pending.
    mutating func pendingEpoch(of sidecar: Sidecar) throws(SidecarSyntaxError) -> PendingEpoch? {
        switch sidecar.state {
        case .creating, .ready: return nil
        case .rotating, .switching: break
        }
        try recordName("pending")
        try scanner.literal(",\"epoch\":\(sidecar.epoch + 1)")
        let created = try creation()
        try scanner.literal(",\"pages\":")
        // The number of pages is known exactly when the copy is complete.
        let allowed = sidecar.state == .rotating ? 0...0 : 1...CustodyLimits.databasePages
        let pages = try integer("pages") { allowed.contains($0) }
        let salt = try salt()
        let wrapped = try wrappedKey()
        try endOfObject("}")
        var table: SlotTable?
        if let slotted = sidecar.slotted, scanner.startsWith("{\"record\":\"pending-slot\"") {
            table = try slotRecords("pending-slot", nextID: slotted.table.nextID)
        }
        return PendingEpoch(created: created, pages: UInt32(pages), salt: salt, wrapped: wrapped, table: table)
    }
}
