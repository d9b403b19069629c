import KeyCustody
import StorePlatform

/// The token of a PKCS#11 keyslot: which key of which token has wrapped the secret, and the result.
struct PKCS11Token: Hashable, Sendable {
    enum Method: Hashable, Sendable {
        /// A secret key on the token: AES-GCM with a nonce of 12 bytes, and as additional data ``additionalData(of:)``.
        case aes(nonce: [UInt8], sealed: [UInt8])
        /// A private key on the token: RSA-OAEP with this public key.
        case rsa(modulus: [UInt8], exponent: [UInt8], usesSHA256: Bool, sealed: [UInt8])
    }

    static let formatVersion: UInt8 = 1

    let serial: String
    let tokenLabel: String
    let keyID: [UInt8]
    let keyLabel: String
    let method: Method

    static func additionalData(of store: StoreID) -> [UInt8] { Array("cipherstore pkcs11 v1".utf8) + store.bytes }

    /// The blob: version, method, four texts with a length byte each, and what the method has.
    var encoded: [UInt8] {
        var bytes = [Self.formatVersion, code]
        for part in [Array(serial.utf8), Array(tokenLabel.utf8), keyID, Array(keyLabel.utf8)] {
            bytes += [UInt8(clamping: part.count)] + part.prefix(Int(UInt8.max))
        }
        switch method {
        case .aes(let nonce, let sealed): bytes += nonce + sealed
        case .rsa(let modulus, let exponent, _, let sealed):
            bytes +=
                [UInt8(truncatingIfNeeded: modulus.count >> 8), UInt8(truncatingIfNeeded: modulus.count)] + modulus
            bytes += [UInt8(clamping: exponent.count)] + exponent + sealed
        }
        return bytes
    }

    private var code: UInt8 {
        switch method {
        case .aes: 1
        case .rsa(_, _, true, _): 2
        case .rsa(_, _, false, _): 3
        }
    }

    init(serial: String, tokenLabel: String, keyID: [UInt8], keyLabel: String, method: Method) {
        (self.serial, self.tokenLabel, self.keyID, self.keyLabel) = (serial, tokenLabel, keyID, keyLabel)
        self.method = method
    }

    /// Nil for any other bytes than ``encoded`` makes.
    init?(encoded bytes: [UInt8]) {
        var reader = Reader(bytes)
        guard reader.byte() == Self.formatVersion, let code = reader.byte(), let serial = reader.text(),
            let tokenLabel = reader.text(), let keyID = reader.part(), let keyLabel = reader.text()
        else { return nil }
        let method: Method
        switch code {
        case 1:
            guard let nonce = reader.take(12), reader.rest.count == RawKeyLayout.sealedBytes else { return nil }
            method = .aes(nonce: nonce, sealed: Array(reader.rest))
        case 2, 3:
            guard let high = reader.byte(), let low = reader.byte(),
                let modulus = reader.take(Int(high) << 8 | Int(low)), let exponent = reader.part(),
                !modulus.isEmpty, !exponent.isEmpty, reader.rest.count == modulus.count
            else { return nil }
            method = .rsa(modulus: modulus, exponent: exponent, usesSHA256: code == 2, sealed: Array(reader.rest))
        default: return nil
        }
        self.init(serial: serial, tokenLabel: tokenLabel, keyID: keyID, keyLabel: keyLabel, method: method)
    }

    /// Lengths of a wrapped secret.
    enum RawKeyLayout {
        /// Ciphertext and tag.
        static let sealedBytes = 32 + 16
    }

    private struct Reader {
        private(set) var rest: ArraySlice<UInt8>

        init(_ bytes: [UInt8]) { rest = bytes[...] }

        mutating func byte() -> UInt8? { rest.popFirst() }

        mutating func take(_ count: Int) -> [UInt8]? {
            guard rest.count >= count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }

        mutating func part() -> [UInt8]? { byte().flatMap { take(Int($0)) } }

        mutating func text() -> String? { part().flatMap { String(validating: $0, as: UTF8.self) } }
    }
}
