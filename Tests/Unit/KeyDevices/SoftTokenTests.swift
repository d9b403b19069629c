import Foundation
import StoreCrypto
import StorePlatform
import Synchronization
import Testing

@testable import KeyCustody
@testable import KeyDevices

/// Tokens of SoftHSM 2, made once.
private enum SoftToken {
    static let module = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so"].first {
        FileManager.default.fileExists(atPath: $0)
    }
    static let isThere =
        module != nil && FileManager.default.isExecutableFile(atPath: "/usr/bin/softhsm2-util")
        && FileManager.default.isExecutableFile(atPath: "/usr/bin/pkcs11-tool")
    static let pin = "123456"

    /// Tokens "aes" and "rsa" with a key "store" each, two tokens "twin", and one without a key.
    static let folder = Result { () throws -> TestFolder in
        let folder = TestFolder()
        try FileManager.default.createDirectory(atPath: folder.path("tokens"), withIntermediateDirectories: false)
        try "directories.tokendir = \(folder.path("tokens"))\nobjectstore.backend = file\nlog.level = ERROR\n"
            .write(toFile: folder.path("conf"), atomically: true, encoding: .utf8)
        setenv("SOFTHSM2_CONF", folder.path("conf"), 1)
        for label in ["aes", "rsa", "twin", "twin", "empty"] {
            try run("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", pin, "--so-pin", "87654321")
        }
        try key("aes", "--keygen", "--key-type", "AES:32", "--label", "store", "--id", "01")
        try key("rsa", "--keypairgen", "--key-type", "rsa:2048", "--label", "store", "--id", "02")
        return folder
    }

    static func key(_ token: String, _ arguments: String...) throws {
        try run(
            "pkcs11-tool", ["--module", module ?? "", "--token-label", token, "--login", "--pin", pin] + arguments)
    }

    private static func run(_ program: String, _ arguments: String...) throws { try run(program, arguments) }

    private static func run(_ program: String, _ arguments: [String]) throws {
        let output = try Subprocess.output(
            of: [program] + arguments, limitBytes: 1 << 20, timeout: .seconds(60))
        _ = output
    }
}

/// Keyslots whose secret a key of a PKCS#11 token wraps.
@Suite(
    "PKCS#11 tokens", .serialized,
    .enabled(if: SoftToken.isThere, "SoftHSM 2 and pkcs11-tool are not installed: make setup"))
struct SoftTokenTests {
    private let store = StoreID(bytes: Array(0xa0...0xaf))!
    private let secret = SecretBytes(copying: [UInt8](repeating: 0x2a, count: 32))

    private func device(_ uri: String, pin: String = SoftToken.pin, module: String? = nil) throws -> PKCS11Device {
        _ = try SoftToken.folder.get()
        return PKCS11Device(
            modulePath: try module ?? #require(SoftToken.module), uri: try TokenURI(uri),
            login: PKCS11Login(.passphrase(pin)) { _ in })
    }

    private func unwrap(_ device: PKCS11Device, _ token: SlotToken) throws -> [UInt8]? {
        let slot = TokenSlot(store: store, number: 2, label: .none)
        return try device.unwrap(token, of: slot)?.withBytes { Array($0) }
    }

    private func refusal(_ body: () throws -> Void) throws -> StoreError {
        let error = #expect(throws: StoreError.self) { try body() }
        return try #require(error)
    }

    @Test("a key of the token wraps a secret, and unwraps it in another login", arguments: ["aes", "rsa"])
    func wrapping(token: String) throws {
        let wrapped = try device("pkcs11:token=\(token);object=store").wrap(secret, for: store, replacing: nil)
        #expect(wrapped.isTestable && wrapped.token.name.text == token)
        let blob = try #require(PKCS11Token(encoded: wrapped.token.blob))
        #expect(blob.keyLabel == "store" && blob.keyID == [token == "aes" ? 1 : 2])
        let other = try device("pkcs11:")
        #expect(try other.mayOpen(wrapped.token) && unwrap(other, wrapped.token) == Array(repeating: 0x2a, count: 32))
        #expect(try !device("pkcs11:serial=0").mayOpen(wrapped.token))
        #expect(other.wrapsAlone(wrapped.token) == (token == "rsa"))
    }

    @Test("an RSA key renews a slot without the token, and an AES key with it")
    func renewal() throws {
        let next = SecretBytes(copying: [UInt8](repeating: 7, count: 32))
        for token in ["aes", "rsa"] {
            let owner = try device("pkcs11:token=\(token)")
            let first = try owner.wrap(secret, for: store, replacing: nil).token
            let away = try device("pkcs11:", pin: "none", module: "/nowhere.so")
            if token == "rsa" {
                let renewed = try away.wrap(next, for: store, replacing: first).token
                #expect(try unwrap(owner, renewed) == Array(repeating: 7, count: 32))
            } else {
                #expect(try refusal { _ = try away.wrap(next, for: store, replacing: first) }.code == .keyMissing)
                let renewed = try owner.wrap(next, for: store, replacing: first).token
                #expect(try renewed != first && unwrap(owner, renewed) == Array(repeating: 7, count: 32))
            }
        }
    }

    @Test("a changed blob, or that of another store, gives no secret")
    func changed() throws {
        for token in ["aes", "rsa"] {
            let owner = try device("pkcs11:token=\(token)")
            let first = try owner.wrap(secret, for: store, replacing: nil).token
            var blob = first.blob
            blob[blob.count - 1] ^= 1
            let changed = try #require(SlotToken(name: first.name, blob: blob))
            #expect((try? unwrap(owner, changed)) == nil)
            let slot = TokenSlot(store: try .random(), number: 2, label: .none)
            if token == "aes" { #expect((try? owner.unwrap(first, of: slot)) == nil) }
        }
    }

    @Test("a wrong PIN, no PIN, and what is not there have errors of their own")
    func refusals() throws {
        let token = try device("pkcs11:token=aes").wrap(secret, for: store, replacing: nil).token
        let wrong = try refusal { _ = try unwrap(device("pkcs11:", pin: "654321"), token) }
        #expect(wrong.code == .wrongKey && wrong.why.contains("PIN") && !"\(wrong)".contains("654321"))
        #expect(try unwrap(device("pkcs11:"), token) != nil, "one wrong PIN locks nothing")
        let without = PKCS11Device(
            modulePath: try #require(SoftToken.module), uri: try TokenURI("pkcs11:"), login: PKCS11Login(nil) { _ in })
        #expect(try refusal { _ = try unwrap(without, token) }.why.contains("PIN"))
        #expect(
            try refusal { _ = try device("pkcs11:token=none").wrap(secret, for: store, replacing: nil) }.code
                == .keyMissing)
        #expect(
            try refusal { _ = try device("pkcs11:token=empty").wrap(secret, for: store, replacing: nil) }.code
                == .keyMissing)
        #expect(
            try refusal { _ = try device("pkcs11:token=aes;object=other").wrap(secret, for: store, replacing: nil) }
                .code
                == .keyMissing)
        let twins = try refusal { _ = try device("pkcs11:token=twin").wrap(secret, for: store, replacing: nil) }
        #expect(twins.code == .invalidKey && twins.why.contains("serial"))
        for module in ["/nowhere/module.so", "/usr/bin/env"] {
            #expect(
                try refusal { _ = try unwrap(device("pkcs11:", module: module), token) }.code == .keyMissing)
        }
        #expect(try refusal { _ = try unwrap(device("pkcs11:", module: "module.so"), token) }.code == .invalidKey)
    }

    @Test("several keys of one token are told apart by label and identifier, and a removed key is named")
    func keys() throws {
        _ = try SoftToken.folder.get()
        try SoftToken.key("empty", "--keygen", "--key-type", "AES:32", "--label", "one", "--id", "0a")
        try SoftToken.key("empty", "--keygen", "--key-type", "AES:32", "--label", "two", "--id", "0b")
        defer {
            try? SoftToken.key("empty", "--delete-object", "--type", "secrkey", "--id", "0a")
        }
        #expect(
            try refusal { _ = try device("pkcs11:token=empty").wrap(secret, for: store, replacing: nil) }.code
                == .invalidKey)
        let token = try device("pkcs11:token=empty;id=%0b").wrap(secret, for: store, replacing: nil).token
        #expect(try unwrap(device("pkcs11:"), token) != nil)
        try SoftToken.key("empty", "--delete-object", "--type", "secrkey", "--id", "0b")
        let gone = try refusal { _ = try unwrap(device("pkcs11:"), token) }
        #expect(gone.code == .keyMissing && gone.why.contains("two"))
    }

    @Test("the PIN is read once by a source, and not kept when it was wrong")
    func pinOnce() throws {
        _ = try SoftToken.folder.get()
        let calls = Mutex(0)
        let pin = KeySource.custom("PIN") {
            calls.withLock { $0 += 1 }
            return try Passphrase(SoftToken.pin)
        }
        let source = try KeySource.pkcs11("pkcs11:token=aes", module: SoftToken.module, pin: pin)
        let session = try #require(try source.read().session)
        let (token, _) = try session.make(for: store, slot: 2, replacing: nil)
        #expect(session.device.mayOpen(token))
        #expect(calls.withLock { $0 } == 1)
    }
}
