import StoreCrypto
import StorePlatform

/// The grammar of the sidecar (`Docs/Formats/Sidecar.md`), line by line.
struct SidecarParser {
    private let bytes: [UInt8]
    private var scanner: SidecarScanner

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        scanner = SidecarScanner(bytes)
    }

    /// Reads the beginning of the first line, up to the number of the version.
    mutating func version() throws(SidecarSyntaxError) -> UInt64 {
        try scanner.literal("{\"format\":\"\(Sidecar.formatName)\",\"version\":")
        return try scanner.number("version")
    }

    /// Reads everything behind the number of the version.
    mutating func records() throws(SidecarSyntaxError) -> UnauthenticatedSidecar {
        try endOfObject("}")
        let store = try storeRecord()
        let (salt, settings) = try cipherRecord()
        let keyCheck = try keyCheckRecord()
        if scanner.startsWith("{\"record\":") { try recordName(nil) }
        let authenticatedCount = scanner.position
        try scanner.literal("{\"mac\":\"")
        let mac = try scanner.hex(byteCount: SidecarSeal.macBytes, "mac")
        try endOfObject("\"}")
        guard scanner.isAtEnd else { throw scanner.malformed("the end of the file") }
        let sidecar = Sidecar(
            storeID: store.id, state: store.state, epoch: store.epoch, generation: store.generation,
            scheme: store.scheme, salt: salt, settings: settings)
        return UnauthenticatedSidecar(
            claimed: sidecar, bytes: bytes, keyCheck: keyCheck, mac: mac, authenticatedCount: authenticatedCount)
    }

    private mutating func endOfObject(_ text: String) throws(SidecarSyntaxError) {
        try scanner.literal(text)
        try scanner.endOfLine()
    }

    /// Reads the beginning of a record; one that is reserved for later versions is named in the error.
    private mutating func recordName(_ expected: String?) throws(SidecarSyntaxError) {
        try scanner.literal("{\"record\":\"")
        let name = try scanner.word("record")
        if Sidecar.reservedRecords.contains(name) { throw .featureAhead(name) }
        guard name == expected else { throw scanner.malformed(expected.map { "record \($0)" } ?? "the mac") }
        try scanner.literal("\"")
    }

    private struct StoreRecord {
        let id: StoreID
        let state: Sidecar.State
        let epoch: UInt64
        let generation: UInt64
        let scheme: Sidecar.Scheme
    }

    private mutating func storeRecord() throws(SidecarSyntaxError) -> StoreRecord {
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
        try scanner.literal(",\"scheme\":\"")
        let schemeName = try scanner.word("scheme")
        if Sidecar.reservedSchemes.contains(schemeName) { throw .featureAhead(schemeName) }
        guard let scheme = Sidecar.Scheme(rawValue: schemeName) else { throw scanner.malformed("scheme") }
        try endOfObject("\"}")
        return StoreRecord(id: id, state: state, epoch: epoch, generation: generation, scheme: scheme)
    }

    private mutating func cipherRecord() throws(SidecarSyntaxError) -> (Salt, CipherSettings) {
        try recordName("cipher")
        try scanner.literal(",\"salt\":\"")
        let saltBytes = try scanner.hex(byteCount: Salt.byteCount, "salt")
        guard let salt = try? Salt(bytes: saltBytes) else { throw scanner.malformed("salt") }
        try scanner.literal("\",\"page_bytes\":")
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

    private mutating func keyCheckRecord() throws(SidecarSyntaxError) -> [UInt8] {
        try recordName("key-check")
        try scanner.literal(",\"value\":\"")
        let keyCheck = try scanner.hex(byteCount: SidecarSeal.keyCheckBytes, "value")
        try endOfObject("\"}")
        return keyCheck
    }

    private mutating func integer(
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
