import StoreCrypto
import StorePlatform

/// A sidecar as it was read: well-formed, but nobody has shown yet that the holder of the key wrote it.
package struct UnauthenticatedSidecar: Hashable, Sendable {
    /// What the file says. Use it only to make the key that ``authenticate(dataKey:)`` needs.
    package let claimed: Sidecar
    /// The whole file.
    package let bytes: [UInt8]
    let keyCheck: [UInt8]
    let mac: [UInt8]
    /// Length of the part that the authentication code covers.
    let authenticatedCount: Int

    /// Reads the bytes of a file.
    ///
    /// Exactly what the format allows is taken: one order of records and keys, no blanks, no other characters.
    package static func parse(_ bytes: [UInt8]) throws(SidecarSyntaxError) -> UnauthenticatedSidecar {
        guard bytes.count <= Limits.sidecarBytes else { throw .tooLong(limitBytes: Limits.sidecarBytes) }
        guard !bytes.isEmpty else { throw .empty }
        var parser = SidecarParser(bytes)
        let version = try parser.version()
        if version == Sidecar.formatVersion { return try parser.records() }
        // Every version changes the lines as well: what differs from this version in nothing but the number is damage.
        if (try? parser.records()) != nil { throw .malformed(line: 1, expected: "version 1") }
        throw .versionAhead(version)
    }

    /// What a key shows about the file.
    package enum Verdict: Hashable, Sendable {
        /// The holder of the key wrote it.
        case genuine(Sidecar)
        /// The key is not the one of this sidecar; or salt, settings or identifier, of which the key is made, were
        /// changed.
        case wrongKey
        /// The key is right, and somebody without it changed the file.
        case forged
    }

    /// Holds the file against a key.
    package func authenticate(dataKey: DataKey) throws(CryptoError) -> Verdict {
        let check = try SidecarSeal.keyCheck(storeID: claimed.storeID, dataKey: dataKey)
        let body = Array(bytes[..<authenticatedCount])
        let code = try SidecarSeal.mac(of: body, storeID: claimed.storeID, dataKey: dataKey)
        if !MessageAuthentication.isEqual(check, keyCheck) { return .wrongKey }
        return MessageAuthentication.isEqual(code, mac) ? .genuine(claimed) : .forged
    }
}
