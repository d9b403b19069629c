import StoreCrypto
import StorePlatform

/// A sidecar as it was read: well-formed, but not yet authenticated.
package struct UnauthenticatedSidecar: Hashable, Sendable {
    /// The content of the file. It may be used only to derive the keys that ``authenticate(_:)`` needs.
    package let claimed: Sidecar
    /// The whole file.
    package let bytes: [UInt8]
    let seal: Seal

    /// The values in the file that authenticate it.
    struct Seal: Hashable, Sendable {
        let keyCheck: [UInt8]
        /// The key check of the next epoch, if that has keys that authenticate the file by themselves.
        let pendingKeyCheck: [UInt8]?
        /// The code under the keys of the next epoch, while a rotation is pending.
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
    /// Accepts exactly what the format allows: one order of records and keys, no blanks, no other characters.
    package static func parse(_ bytes: [UInt8]) throws(SidecarSyntaxError) -> UnauthenticatedSidecar {
        guard bytes.count <= CustodyLimits.sidecarBytes else { throw .tooLong(limitBytes: CustodyLimits.sidecarBytes) }
        guard !bytes.isEmpty else { throw .empty }
        var parser = SidecarParser(bytes)
        let version = try parser.version()
        // Every version also differs in its lines. A file that fits another version in everything but the number is
        // damaged.
        for other in Sidecar.versions where other != version {
            var attempt = parser
            if (try? attempt.records(version: other)) != nil {
                throw .malformed(line: 1, expected: "version \(other)")
            }
        }
        return try parser.records(version: version)
    }

    /// The result of authenticating the file with keys.
    package enum Verdict: Hashable, Sendable {
        /// The holder of the keys wrote it, and they open its data keys.
        case genuine(Sidecar)
        /// The key is not the one of this sidecar; or a value that the key is derived from was changed: the identifier,
        /// and in a direct store also salt and settings.
        case wrongKey
        /// The key is right, and the file was changed without it.
        case forged
    }

    /// Authenticates the file with keys.
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

    /// Authenticates the file with keys of the next epoch, if these authenticate it by themselves. A rotation of a
    /// direct store or of a master key leaves this check to a holder of only the new key.
    ///
    /// `genuine` says that the writer of the pending part has the new key. Only the present key can say that of the
    /// rest.
    func authenticateSuccessor(_ keys: SidecarKeys) throws -> Verdict {
        guard let keyCheck = seal.pendingKeyCheck, keys.fit(claimed) else { return .wrongKey }
        let check = try SidecarSeal.keyCheck(storeID: claimed.storeID, keys: keys)
        guard MessageAuthentication.isEqual(check, keyCheck) else { return .wrongKey }
        return try hasPendingCode(of: keys) ? .genuine(claimed) : .forged
    }

    /// Whether the holder of the next keys wrote the file as well, if a rotation is pending.
    ///
    /// The present master key does not open a new one. Its holder therefore relies on the code of the present key
    /// alone.
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
