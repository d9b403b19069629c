import StorePlatform
import Testing

@testable import KeyDevices

/// URIs of tokens and keys (RFC 7512).
@Suite("PKCS#11 URIs")
struct TokenURITests {
    @Test("attributes select a token and a key, in any order, with escapes")
    func attributes() throws {
        let uri = try TokenURI(
            "pkcs11:object=store%20key;token=My%20token;serial=0123;id=%01%ab;type=private?module-path=/usr/lib/p.so")
        #expect(uri.object == "store key" && uri.tokenLabel == "My token" && uri.serial == "0123")
        #expect(uri.id == [0x01, 0xab] && uri.type == "private" && uri.modulePath == "/usr/lib/p.so")
        let token = TokenIdentity(label: "My token", serial: "0123", manufacturer: "m", model: "x")
        #expect(uri.selects(token))
        #expect(try !TokenURI("pkcs11:serial=0124").selects(token) && TokenURI("pkcs11:").selects(token))
        #expect(try TokenURI("0123").serial == "0123")
    }

    @Test(
        "what selects no key is refused",
        arguments: [
            "", "pkcs11:serial", "pkcs11:serial=1;serial=2", "pkcs11:object=%zz", "pkcs11:object=%4",
            "pkcs11:type=cert",
            "pkcs11:colour=red", "token=1", "pkcs11:slot-id=1", "pkcs11:serial=1?pin-source=file:/etc/pin",
        ])
    func refused(text: String) {
        let error = #expect(throws: StoreError.self) { _ = try TokenURI(text) }
        #expect(error?.code == .invalidKey)
    }

    @Test("a PIN in a URI is refused, and is in no error")
    func pin() {
        do {
            _ = try TokenURI("pkcs11:serial=1?pin-value=123456")
            Issue.record("it was accepted")
        } catch {
            #expect(error.code == .invalidKey && !"\(error)".contains("123456"))
        }
    }
}

/// The tokens of PKCS#11 keyslots.
@Suite("PKCS#11 blobs")
struct PKCS11TokenTests {
    static let samples = [
        PKCS11Token(
            serial: "0123", tokenLabel: "My token", keyID: [1, 2], keyLabel: "store",
            method: .aes(nonce: Array(repeating: 3, count: 12), sealed: Array(repeating: 4, count: 48))),
        PKCS11Token(
            serial: "", tokenLabel: "", keyID: [], keyLabel: "",
            method: .rsa(
                modulus: Array(repeating: 5, count: 256), exponent: [1, 0, 1], usesSHA256: true,
                sealed: Array(repeating: 6, count: 256))),
    ]

    @Test("a blob is read as it was written, and no beginning of one is", arguments: samples)
    func codec(token: PKCS11Token) {
        #expect(PKCS11Token(encoded: token.encoded) == token)
        for count in 0..<token.encoded.count {
            #expect(PKCS11Token(encoded: Array(token.encoded.prefix(count))) == nil)
        }
        #expect(PKCS11Token(encoded: token.encoded + [0]) == nil)
        for index in 0...1 {
            var other = token.encoded
            other[index] ^= 0x80
            #expect(PKCS11Token(encoded: other) == nil)
        }
    }
}
