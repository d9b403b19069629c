import StoreCrypto
import StorePlatform

extension Sidecar {
    static let formatName = "cipherstore-sidecar"
    /// The version of the format for direct stores.
    static let directVersion: UInt64 = 1
    /// The version of the format for stores with keyslots.
    static let slotsVersion: UInt64 = 2
    /// The version of the format for stores with a keyslot whose secret a device keeps.
    static let tokensVersion: UInt64 = 3

    static let versions = directVersion...tokensVersion

    var formatVersion: UInt64 {
        switch scheme {
        case .direct: Self.directVersion
        case .slots: hasTokens ? Self.tokensVersion : Self.slotsVersion
        }
    }

    /// Whether a device keeps the secret of a keyslot, or of one that a pending rotation makes.
    private var hasTokens: Bool { (slots + (pending?.table?.slots ?? [])).contains { $0.kind.isToken } }

    /// The bytes of the file, sealed with the keys.
    ///
    /// - Parameter next: The keys of the next epoch, if a rotation is pending; nil uses those that the present keys
    ///   open.
    /// - Throws: `StoreError` `settingsConflict` when the result could not be read back; `CryptoError`.
    package func encoded(keys: SidecarKeys, next: SidecarKeys? = nil) throws -> [UInt8] {
        let keyCheck = try SidecarSeal.keyCheck(storeID: storeID, keys: keys)
        let next = try pending == nil ? nil : next ?? keys.successor(of: self)
        let hasOwnKeys = successorHasOwnKeys
        var bytes = body(
            keyCheck: keyCheck,
            pendingKeyCheck: try hasOwnKeys ? next.map { try SidecarSeal.keyCheck(storeID: storeID, keys: $0) } : nil)
        if let next, let mac = try SidecarSeal.pendingMac(of: bytes, sidecar: self, next: next) {
            bytes += Self.pendingMacLine(mac)
        }
        bytes += Self.macLine(try SidecarSeal.mac(of: bytes, storeID: storeID, keys: keys))
        // A sidecar that cannot be read back loses the salt or the key, so it must not be written.
        do {
            let parsed = try UnauthenticatedSidecar.parse(bytes)
            var verdicts = [try parsed.authenticate(keys)]
            if let next, hasOwnKeys { verdicts.append(try parsed.authenticateSuccessor(next)) }
            guard verdicts.allSatisfy({ $0 == .genuine(self) }) else {
                throw SidecarSyntaxError.malformed(line: 1, expected: "what its keys open")
            }
        } catch let error as SidecarSyntaxError {
            throw StoreError(
                .settingsConflict, what: "The sidecar of the store cannot be written.",
                why: "Its values are outside what the format allows: \(error).",
                remedy: "Use a page size that is a power of two from 512 to 65536, 0 or 32 plaintext header bytes, "
                    + "and 1 to 10000000 key derivation rounds.")
        }
        return bytes
    }

    static func macLine(_ mac: [UInt8]) -> [UInt8] { Array("{\"mac\":\"\(Hex.text(mac))\"}\n".utf8) }

    static func pendingMacLine(_ mac: [UInt8]) -> [UInt8] { Array("{\"pending-mac\":\"\(Hex.text(mac))\"}\n".utf8) }

    /// Every line before the authentication codes.
    func body(keyCheck: [UInt8], pendingKeyCheck: [UInt8]? = nil) -> [UInt8] {
        var lines = [
            "{\"format\":\"\(Self.formatName)\",\"version\":\(formatVersion)}",
            "{\"record\":\"store\",\"id\":\"\(Hex.text(storeID.bytes))\",\"state\":\"\(state.rawValue)\","
                + "\"epoch\":\(epoch),\"generation\":\(generation),\"scheme\":\"\(scheme.name)\"}",
            "{\"record\":\"cipher\",\"salt\":\"\(salt.hex)\",\"page_bytes\":\(settings.pageBytes),"
                + "\"plaintext_header_bytes\":\(settings.plaintextHeaderBytes),\"kdf_rounds\":\(settings.kdfRounds),"
                + "\"kdf_hash\":\"\(settings.kdfHash.rawValue)\",\"hmac_hash\":\"\(settings.hmacHash.rawValue)\"}",
        ]
        if let slotted { lines += slotted.lines(epoch: epoch) }
        if let pending { lines += pending.lines(epoch: epoch + 1) }
        lines.append("{\"record\":\"key-check\",\"value\":\"\(Hex.text(keyCheck))\"}")
        if let pendingKeyCheck {
            lines.append("{\"record\":\"pending-key-check\",\"value\":\"\(Hex.text(pendingKeyCheck))\"}")
        }
        return lines.flatMap { Array($0.utf8) + [UInt8(ascii: "\n")] }
    }
}

extension SlottedKeys {
    /// The lines after the cipher record.
    fileprivate func lines(epoch: UInt64) -> [String] {
        var lines = ["{\"record\":\"slots\",\"next_id\":\(table.nextID)}"]
        lines += table.slots.map { $0.line("slot") }
        lines.append(
            "{\"record\":\"data-key\",\"epoch\":\(epoch),\"created\":\(dataKey.created),"
                + "\"origin\":\"\(dataKey.origin.rawValue)\",\(dataKey.wrapped.fields)}")
        return lines
    }
}

extension PendingEpoch {
    /// The lines before the key check.
    fileprivate func lines(epoch: UInt64) -> [String] {
        let pending =
            "{\"record\":\"pending\",\"epoch\":\(epoch),\"created\":\(created),\"pages\":\(pages),"
            + "\"salt\":\"\(salt.hex)\",\(wrapped.fields)}"
        return [pending] + (table?.slots ?? []).map { $0.line("pending-slot") }
    }
}

extension Keyslot {
    fileprivate func line(_ record: String) -> String {
        "{\"record\":\"\(record)\",\"id\":\(id),\"kind\":\"\(kind.rawValue)\",\"created\":\(created),"
            + "\"label\":\"\(label.text)\",\(derivation.fields)\(token?.fields ?? ""),\"salt\":\"\(salt.hex)\",\(wrapped.fields)}"
    }
}

extension SlotToken {
    fileprivate var fields: String { ",\"name\":\"\(name)\",\"token\":\"\(Hex.text(blob))\"" }
}

extension SlotDerivation {
    fileprivate var fields: String {
        switch self {
        case .hkdf: "\"kdf\":\"hkdf\""
        case .scrypt(let log2Rounds, let blockSize, let lanes):
            "\"kdf\":\"scrypt\",\"log2_n\":\(log2Rounds),\"r\":\(blockSize),\"p\":\(lanes)"
        case .argon2id(let memoryKiB, let iterations, let lanes):
            "\"kdf\":\"argon2id\",\"memory_kib\":\(memoryKiB),\"iterations\":\(iterations),\"lanes\":\(lanes)"
        }
    }
}

extension WrappedKey {
    fileprivate var fields: String { "\"nonce\":\"\(Hex.text(nonce))\",\"wrapped\":\"\(Hex.text(sealed))\"" }
}
