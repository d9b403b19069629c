import StoreCrypto
import StorePlatform

extension Sidecar {
    static let formatName = "cipherstore-sidecar"
    static let formatVersion: UInt64 = 1
    /// Records that later versions of the format will have; this one refuses them by name.
    static let reservedRecords: Set<String> = ["slot", "master-key", "data-key", "pending"]
    static let reservedSchemes: Set<String> = ["slots"]

    /// The bytes of the file, sealed with the key.
    ///
    /// - Throws: `StoreError` `settingsConflict` when the value could not be read back; `CryptoError`.
    package func encoded(dataKey: DataKey) throws -> [UInt8] {
        let keyCheck = try SidecarSeal.keyCheck(storeID: storeID, dataKey: dataKey)
        let body = body(keyCheck: keyCheck)
        let mac = try SidecarSeal.mac(of: body, storeID: storeID, dataKey: dataKey)
        let bytes = body + Array("{\"mac\":\"\(Hex.text(mac))\"}\n".utf8)
        // A sidecar that cannot be read back is a lost salt: rather no sidecar at all.
        do {
            guard try UnauthenticatedSidecar.parse(bytes).claimed == self else { throw SidecarSyntaxError.empty }
        } catch {
            throw StoreError(
                .settingsConflict, what: "The sidecar of the store cannot be written.",
                why: "Its values are outside what the format allows: \(error).",
                remedy: "Use a page size that is a power of two from 512 to 65536, 0 or 32 plaintext header bytes, "
                    + "and 1 to 10000000 key derivation rounds.")
        }
        return bytes
    }

    /// Every line before the authentication code.
    func body(keyCheck: [UInt8]) -> [UInt8] {
        let lines = [
            "{\"format\":\"\(Self.formatName)\",\"version\":\(Self.formatVersion)}",
            "{\"record\":\"store\",\"id\":\"\(Hex.text(storeID.bytes))\",\"state\":\"\(state.rawValue)\","
                + "\"epoch\":\(epoch),\"generation\":\(generation),\"scheme\":\"\(scheme.rawValue)\"}",
            "{\"record\":\"cipher\",\"salt\":\"\(salt.hex)\",\"page_bytes\":\(settings.pageBytes),"
                + "\"plaintext_header_bytes\":\(settings.plaintextHeaderBytes),\"kdf_rounds\":\(settings.kdfRounds),"
                + "\"kdf_hash\":\"\(settings.kdfHash.rawValue)\",\"hmac_hash\":\"\(settings.hmacHash.rawValue)\"}",
            "{\"record\":\"key-check\",\"value\":\"\(Hex.text(keyCheck))\"}",
        ]
        return lines.flatMap { Array($0.utf8) + [UInt8(ascii: "\n")] }
    }
}
