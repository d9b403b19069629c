import CipherStore
import EncryptionConformance
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StoreTools
import TestKit
import Testing

/// The verdicts of the checks on files that are not what they claim to be.
@Suite("Careless configurations")
struct CarelessTests {
    private let fixture = ConformanceFixture()

    @Test("plain SQLite: it is not encrypted, has no sidecar, looks like no ciphertext, and everybody reads it")
    func plain() throws {
        try fixture.makePlain()
        try fixture.setMode(0o644, "")
        let report = try fixture.run()
        #expect(report.failed == [.header, .sidecar, .fileModes, .pages, .ciphertext, .plainSQLite])
        #expect(report.evidence(.header) == "the file is plain SQLite: it is not encrypted")
        #expect(report.evidence(.plainSQLite).hasPrefix("SQLite without a key reads the schema"))
        #expect(report.evidence(.fileModes).contains("every user may read the database (mode 644)"))
        #expect(report.map.counts[.plain] == report.map.pageCount)
    }

    @Test("a file of SQLCipher: its pages are authentic, its salt is in the header, and it has no sidecar")
    func standard() throws {
        try fixture.makeStandard()
        try fixture.setMode(0o600, "")
        let report = try fixture.run()
        #expect(report.failed == [.header, .sidecar], "\(report)")
        #expect(report[.pages]?.verdict == .pass && report[.stockSQLCipher]?.verdict == .pass)
        #expect(report.evidence(.header).contains("the salt is in the first 16 bytes of the file"))
        #expect(report.evidence(.sidecar).contains("there is no sidecar"))
    }

    @Test("temp_store=FILE, the salt in the header and a sidecar that everybody reads are all named")
    func careless() throws {
        try fixture.makeStore()
        try moveSaltIntoHeader()
        try fixture.setMode(0o644, "-sidecar")
        let copy = fixture.folder.path("copy.db")
        try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
        let keys = try FixtureKeys(fixture).dataKey
        let report = try fixture.run { file in
            file.pool = {
                var configuration = Configuration()
                configuration.prepareDatabase { db in
                    try db.useRawKey(Data(keys))
                    // The library refuses it as long as its authorizer is there.
                    sqlite3_set_authorizer(db.sqliteConnection, nil, nil)
                    sqlite3_exec(db.sqliteConnection, "PRAGMA temp_store = FILE", nil, nil, nil)
                }
                return try DatabasePool(path: copy, configuration: configuration)
            }
        }
        #expect(report.failed == [.header, .fileModes, .connections, .temporaryFiles], "\(report)")
        #expect(report[.pages]?.verdict == .pass)
        #expect(report.evidence(.header).contains("the salt is in the first 16 bytes of the file"))
        #expect(report.evidence(.fileModes) == "every user may read the sidecar (mode 644)")
        #expect(report.evidence(.connections).contains("temp_store is FILE"))
        #expect(report.evidence(.connections).contains("cipher_plaintext_header_size is 0"))
        #expect(report.evidence(.temporaryFiles).contains("a sort wrote plaintext to the temporary file"))
    }

    /// Rewrites page 1 so that the file is one of SQLCipher, with the same key and salt.
    private func moveSaltIntoHeader() throws {
        let key = try FixtureKeys(fixture).key
        var standard = key.settings
        standard.plaintextHeaderBytes = 0
        var reader = try PageCodec(keys: PageKeys(key))
        var writer = try PageCodec(keys: PageKeys(PageKey(key.dataKey, salt: key.salt, settings: standard)))
        let page = Array(try fixture.bytes()[..<4096])
        var plain = page
        var encrypted = page
        try page.withUnsafeBytes { source in
            try plain.withUnsafeMutableBytes { try reader.decrypt(source, number: 1, into: $0) }
        }
        try plain.withUnsafeBytes { source in
            try encrypted.withUnsafeMutableBytes { try writer.encrypt(source, number: 1, into: $0) }
        }
        try fixture.poke(at: 0, encrypted)
    }
}
