import StoreCrypto

/// The values by which a holder of the keys authenticates a sidecar.
enum SidecarSeal {
    static let macBytes = 32
    static let keyCheckBytes = 16
    static let macLabel = "cipherstore sidecar mac v1"
    static let keyCheckLabel = "cipherstore key check v1"
    static let directPendingMacLabel = "cipherstore pending mac v1"
    static let pendingMacLabel = "cipherstore pending mac v2"
    static let pendingSlotsMacLabel = "cipherstore pending slots mac v2"

    /// The authentication code of everything before the last line.
    static func mac(of bytes: [UInt8], storeID: StoreID, keys: SidecarKeys) throws(CryptoError) -> [UInt8] {
        let key = try keys.derived((macLabel, MasterKey.macLabel), storeID, keyBytes: 32)
        return try MessageAuthentication.hmac(.sha256, key: key, bytes)
    }

    /// A value that is derived from the key and does not reveal it. It distinguishes a wrong key from a changed
    /// sidecar.
    ///
    /// It depends only on the key and the store identifier. A change of any other field therefore leaves it valid, and
    /// is reported as a change.
    static func keyCheck(storeID: StoreID, keys: SidecarKeys) throws(CryptoError) -> [UInt8] {
        let check = try keys.derived((keyCheckLabel, MasterKey.keyCheckLabel), storeID, keyBytes: keyCheckBytes)
        return check.withBytes { Array($0) }
    }

    /// The authentication code of everything before its line, under the keys of the next epoch.
    ///
    /// While a rotation is pending the sidecar is sealed under the old and the new key. A holder of only one of them
    /// therefore cannot make a store resume a rotation that was never started (CVE-2021-4122).
    /// - Returns: nil when these are not the keys of the next epoch.
    static func pendingMac(of bytes: [UInt8], sidecar: Sidecar, next: SidecarKeys) throws -> [UInt8]? {
        guard let key = try pendingMacKey(of: sidecar, next: next) else { return nil }
        return try MessageAuthentication.hmac(.sha256, key: key, bytes)
    }

    /// The key of that code: derived from the next data key, or from the next master key if that is new as well.
    static func pendingMacKey(of sidecar: Sidecar, next: SidecarKeys) throws -> SecretBytes? {
        // The proof includes that the master key opens the next data key.
        guard let successor = sidecar.successor, let dataKey = try next.dataKey(of: successor) else { return nil }
        if case .slots(let master, _) = next, sidecar.pending?.table != nil {
            return try master.derived(pendingSlotsMacLabel, sidecar.storeID)
        }
        let label = sidecar.slotted == nil ? directPendingMacLabel : pendingMacLabel
        return try KeyDerivation.hkdf(key: dataKey.secret, salt: sidecar.storeID.bytes, label: label, keyBytes: 32)
    }
}
