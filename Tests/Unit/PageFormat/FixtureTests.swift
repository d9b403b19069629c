import Foundation
@testable import PageFormat
import StoreCrypto
import Testing

/// The shape of Keys/manifest.json.
struct Manifest: Decodable {
    struct Fixture: Decodable, Sendable, CustomTestStringConvertible {
        struct Row: Decodable, Sendable {
            var id: Int
            var text: String
        }

        struct Expected: Decodable, Sendable {
            var verdict: String
            var pages: UInt32
            var committedFrames: UInt32
            var rows: [Row]
        }

        var file: String
        var what: String
        var sha256: String
        var settings: String
        var passphrase: String?
        var salt: String?
        var dataKey: String?
        var expected: Expected

        var testDescription: String { what }
        var cipherSettings: CipherSettings? {
            ["sqlCipher4": .sqlCipher4, "sqlCipher3": .sqlCipher3, "plaintextHeader": .plaintextHeader][settings]
        }
    }

    private struct Kind: Decodable {
        var kind: String
        var file: String
    }

    private struct Entries<Item: Decodable>: Decodable { var entries: [Item] }

    static let data = try! Data(contentsOf: keysFolder.appending(path: "manifest.json"))

    /// Every file that the manifest names.
    static var files: [String] {
        try! JSONDecoder().decode(Entries<Kind>.self, from: data).entries.map(\.file)
    }

    static let fixtures: [Fixture] = {
        struct Entry: Decodable {
            var fixture: Fixture?

            init(from decoder: any Decoder) throws {
                fixture = try Kind(from: decoder).kind == "fixture" ? Fixture(from: decoder) : nil
            }
        }
        return try! JSONDecoder().decode(Entries<Entry>.self, from: data).entries.compactMap(\.fixture)
    }()
}

@Suite("Vectors and fixtures in Keys")
struct FixtureTests {
    @Test("the manifest names every vector and fixture, and they exist")
    func listsEveryFile() throws {
        let found = try ["vectors", "fixtures"].flatMap { folder in
            try FileManager.default.contentsOfDirectory(atPath: keysFolder.appending(path: folder).path)
                .map { "\(folder)/\($0)" }
        }
        // A log belongs to the entry of its database.
        #expect(Set(found.filter { !$0.hasSuffix("-wal") }) == Set(Manifest.files))
    }

    @Test(
        "a fixture gives the verdict, the pages and the commits that the manifest promises",
        arguments: Manifest.fixtures)
    func meetsExpectations(fixture: Manifest.Fixture) throws {
        let image = try DatabaseImage(of: keysFolder.appending(path: fixture.file))
        var digest = try ContentDigest()
        image.main.withUnsafeBytes { digest.update($0) }
        #expect(try digest.finish().hex == fixture.sha256)
        let verdict = DatabaseHeader.examine(
            image.main, fileBytes: image.main.count, settings: fixture.cipherSettings)
        #expect("\(verdict)".split(separator: "(")[0] == fixture.expected.verdict)
        guard let settings = fixture.cipherSettings, let salt = fixture.salt, let dataKey = fixture.dataKey else {
            #expect(fixture.expected.verdict == "plainSQLite")
            return
        }
        let keys = try PageKeys(
            dataKey: SecretBytes(copying: [UInt8](hex: dataKey)), salt: [UInt8](hex: salt), settings: settings)
        let report = try PageScan.verifyPages(
            keys: keys, pageCount: fixture.expected.pages, workers: 1, read: { image.main.read($0, $1) })
        #expect(report.isClean)
        #expect(image.main.count == Int(fixture.expected.pages) * keys.layout.pageBytes)
        let log = try WALScan.scan(image.log)
        #expect(log?.committedFrames ?? 0 == fixture.expected.committedFrames)
        if let log {
            let frames = try PageScan.verifyFrames(
                keys: keys, of: log, workers: 1, read: { image.log.read($0, $1) })
            #expect(frames.isClean)
        }
    }

    @Test("a fixture opens in SQLCipher by its passphrase", arguments: Manifest.fixtures)
    func opensByPassphrase(fixture: Manifest.Fixture) throws {
        let folder = try TemporaryFolder()
        let copy = folder.file("copy.db")
        try DatabaseImage(of: keysFolder.appending(path: fixture.file)).write(to: copy)
        var pragmas: [String] = []
        if fixture.settings == "sqlCipher3" { pragmas.append("cipher_compatibility = 3") }
        if fixture.settings == "plaintextHeader", let salt = fixture.salt {
            pragmas += ["cipher_plaintext_header_size = 32", "cipher_salt = \"x'\(salt)'\""]
        }
        let reader = try SystemSQLCipher(copy, keyspec: fixture.passphrase, pragmas: pragmas)
        let rows = try reader.rows("SELECT id, text FROM note ORDER BY id")
        #expect(rows == fixture.expected.rows.map { [String($0.id), $0.text] })
    }
}
