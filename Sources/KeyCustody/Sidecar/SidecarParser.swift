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
        guard version == Sidecar.directVersion || version == Sidecar.slotsVersion else { throw .versionAhead(version) }
        try endOfObject("}")
        let store = try storeRecord(scheme: version == Sidecar.directVersion ? "direct" : "slots")
        let (salt, settings) = try cipherRecord()
        let scheme = version == Sidecar.directVersion ? .direct : try slotsScheme(store)
        var sidecar = Sidecar(
            storeID: store.id, state: store.state, epoch: store.epoch, generation: store.generation,
            scheme: scheme, salt: salt, settings: settings)
        sidecar.pending = try pendingEpoch(of: sidecar)
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
        let pageBytes = try integer("page_bytes") { Limits.pageBytes.contains($0) && $0.nonzeroBitCount == 1 }
        try scanner.literal(",\"plaintext_header_bytes\":")
        let headerBytes = try integer("plaintext_header_bytes") { $0 == 0 || $0 == 32 }
        try scanner.literal(",\"kdf_rounds\":")
        let rounds = try integer("kdf_rounds") { Limits.kdfRounds.contains($0) }
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
