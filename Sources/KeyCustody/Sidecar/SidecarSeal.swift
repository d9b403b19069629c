import StoreCrypto

/// The two values by which the holder of the key knows his sidecar.
enum SidecarSeal {
    static let macBytes = 32
    static let keyCheckBytes = 16
    static let macLabel = "cipherstore sidecar mac v1"
    static let keyCheckLabel = "cipherstore key check v1"

    /// The authentication code of everything before the last line.
    static func mac(of bytes: [UInt8], storeID: StoreID, dataKey: DataKey) throws(CryptoError) -> [UInt8] {
        try dataKey.withSecret { (secret) throws(CryptoError) -> [UInt8] in
            let key = try KeyDerivation.hkdf(key: secret, salt: storeID.bytes, label: macLabel, keyBytes: 32)
            return try MessageAuthentication.hmac(.sha256, key: key, bytes)
        }
    }

    /// A value that the key gives and that does not give the key: it tells a wrong key from a changed sidecar.
    ///
    /// It depends on nothing but key and store, so that a change of any other field leaves it right and is seen as
    /// what it is.
    static func keyCheck(storeID: StoreID, dataKey: DataKey) throws(CryptoError) -> [UInt8] {
        try dataKey.withSecret { (secret) throws(CryptoError) -> [UInt8] in
            let check = try KeyDerivation.hkdf(
                key: secret, salt: storeID.bytes, label: keyCheckLabel, keyBytes: keyCheckBytes)
            return check.withBytes { Array($0) }
        }
    }
}
