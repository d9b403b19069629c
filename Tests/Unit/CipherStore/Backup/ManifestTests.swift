import Foundation
import KeyCustody
import StoreCrypto
import TestKit
import Testing

@testable import CipherStore

@Suite("Manifests of backups")
struct ManifestTests {
    private let key = try? DataKey(SecretBytes.random(count: 32))

    private func manifest() throws -> BackupManifest {
        BackupManifest(
            storeID: try #require(StoreID(bytes: Array(0..<16))), epoch: 3, generation: 17, created: 1_700_000_000,
            pageBytes: 4096, pages: 9,
            database: BackupManifest.File(
                name: "store.db", byteCount: 9 * 4096, sha256: [UInt8](repeating: 1, count: 32)),
            sidecar: BackupManifest.File(
                name: "store.db-sidecar", byteCount: 700, sha256: [UInt8](repeating: 2, count: 32)),
            library: "4.6.1 community")
    }

    @Test("a manifest is read as it was written, by any reader of JSON as well")
    func roundTrip() throws {
        let key = try #require(key)
        let manifest = try manifest()
        let bytes = try manifest.encoded(key)
        let read = try BackupManifest.parse(bytes)
        #expect(read.manifest == manifest)
        #expect(try BackupManifest.isAuthentic(read, key))
        #expect(try !BackupManifest.isAuthentic(read, DataKey(SecretBytes.random(count: 32))))
        let json = try #require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        #expect(json["format"] as? String == "cipherstore-backup" && json["pages"] as? Int == 9)
    }

    @Test("nothing but exactly what is written is read")
    func strict() throws {
        let text = String(decoding: try manifest().encoded(#require(key)), as: UTF8.self)
        let changes = [
            ("\"epoch\": 3", "\"epoch\": 03"), ("\"epoch\": 3", "\"epoch\": 3.0"), ("\"epoch\": 3", "\"epoch\":3"),
            ("\"epoch\": 3", "\"epoch\": -3"), ("\"epoch\": 3,\n", ""), ("\"pages\": 9", "\"pages\": 0"),
            ("\"pages\": 9", "\"pages\": 4294967296"), ("\"page_bytes\": 4096", "\"page_bytes\": 4095"),
            ("store.db\"", "../../etc/passwd\""), ("store.db-sidecar", "store.db"), ("community", "comm\\u0075nity"),
            ("{\n", "{\n\n"), ("}\n", "}"), ("}\n", "}\n\n"), ("\n", "\r\n"),
            ("\"created\": 1700000000", "\"created\": 99999999999999999999"),
            ("\"sha256\": \"01", "\"sha256\": \"0A"),
        ]
        for (former, new) in changes {
            let changed = text.replacingOccurrences(of: former, with: new)
            #expect(changed != text, "\(former)")
            #expect(throws: BackupManifest.SyntaxError.self, "\(former) -> \(new)") {
                try BackupManifest.parse(Array(changed.utf8))
            }
        }
        #expect(throws: BackupManifest.SyntaxError.self) { try BackupManifest.parse([]) }
    }

    @Test("every prefix of a manifest is refused")
    func prefixes() throws {
        let bytes = try manifest().encoded(#require(key))
        for count in 0..<bytes.count {
            #expect(throws: BackupManifest.SyntaxError.self) { try BackupManifest.parse(Array(bytes[..<count])) }
        }
    }
}
