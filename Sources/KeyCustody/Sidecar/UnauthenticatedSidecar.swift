import StoreCrypto
import StorePlatform

/// A sidecar as it was read: well-formed, but nobody has shown yet that the holder of the key wrote it.
package struct UnauthenticatedSidecar: Hashable, Sendable {
    /// What the file says. Use it only to make the keys that ``authenticate(_:)`` needs.
    package let claimed: Sidecar
    /// The whole file.
    package let bytes: [UInt8]
    let seal: Seal

    /// What stands in the file to authenticate it.
    struct Seal: Hashable, Sendable {
        let keyCheck: [UInt8]
        /// Of the next epoch, where that has keys that prove the file by themselves.
        let pendingKeyCheck: [UInt8]?
        /// Under the keys of the next epoch, while one is pending.
        let pending: Code?
        let mac: Code
    }

    /// An authentication code, and the length of the part of the file that it covers.
    struct Code: Hashable, Sendable {
        let value: [UInt8]
        let coveredBytes: Int
    }

    /// Reads the bytes of a file.
    ///
    /// Exactly what the format allows is taken: one order of records and keys, no blanks, no other characters.
    package static func parse(_ bytes: [UInt8]) throws(SidecarSyntaxError) -> UnauthenticatedSidecar {
        guard bytes.count <= Limits.sidecarBytes else { throw .tooLong(limitBytes: Limits.sidecarBytes) }
        guard !bytes.isEmpty else { throw .empty }
        var parser = SidecarParser(bytes)
        let version = try parser.version()
        // Every version changes the lines as well: what differs from one of them in nothing but the number is damage.
        for other in [Sidecar.directVersion, Sidecar.slotsVersion] where other != version {
            var attempt = parser
            if (try? attempt.records(version: other)) != nil {
                throw .malformed(line: 1, expected: "version \(other)")
            }
        }
        return try parser.records(version: version)
    }

    /// What keys show about the file.
    package enum Verdict: Hashable, Sendable {
        /// The holder of the keys wrote it, and they open its data keys.
        case genuine(Sidecar)
        /// The key is not the one of this sidecar; or what the key is made of was changed: the identifier, in a direct
        /// store also salt and settings.
        case wrongKey
        /// The key is right, and somebody without it changed the file.
        case forged
    }

    /// Holds the file against keys.
    package func authenticate(_ keys: SidecarKeys) throws -> Verdict {
        guard keys.fit(claimed) else { return .wrongKey }
        let check = try SidecarSeal.keyCheck(storeID: claimed.storeID, keys: keys)
        let code = try SidecarSeal.mac(of: covered(by: seal.mac), storeID: claimed.storeID, keys: keys)
        if !MessageAuthentication.isEqual(check, seal.keyCheck) { return .wrongKey }
        guard MessageAuthentication.isEqual(code, seal.mac.value), try keys.dataKey(of: claimed) != nil else {
            return .forged
        }
        return try isPendingAuthentic(keys) ? .genuine(claimed) : .forged
    }

    /// Holds the file against keys of the next epoch, where these prove it by themselves: what a rotation of a direct store
    /// or of a master key leaves to the holder of the new key alone.
    ///
    /// Genuine says that whoever wrote the pending part has the new key. It takes the present key to say that of the rest.
    func authenticateSuccessor(_ keys: SidecarKeys) throws -> Verdict {
        guard let keyCheck = seal.pendingKeyCheck, keys.fit(claimed) else { return .wrongKey }
        let check = try SidecarSeal.keyCheck(storeID: claimed.storeID, keys: keys)
        guard MessageAuthentication.isEqual(check, keyCheck) else { return .wrongKey }
        return try hasPendingCode(of: keys) ? .genuine(claimed) : .forged
    }

    /// Whether the holder of the next keys wrote the file as well, where there are some.
    ///
    /// A new master key is not to be had from the present one: its holder takes the word of the present key alone.
    private func isPendingAuthentic(_ keys: SidecarKeys) throws -> Bool {
        guard let pending = claimed.pending, pending.table == nil else { return true }
        guard let next = try keys.successor(of: claimed) else { return false }
        if let keyCheck = seal.pendingKeyCheck {
            let check = try SidecarSeal.keyCheck(storeID: claimed.storeID, keys: next)
            guard MessageAuthentication.isEqual(check, keyCheck) else { return false }
        }
        return try hasPendingCode(of: next)
    }

    private func hasPendingCode(of next: SidecarKeys) throws -> Bool {
        guard let pending = seal.pending,
            let code = try SidecarSeal.pendingMac(of: covered(by: pending), sidecar: claimed, next: next)
        else { return false }
        return MessageAuthentication.isEqual(code, pending.value)
    }

    private func covered(by code: Code) -> [UInt8] { Array(bytes[..<code.coveredBytes]) }
}
