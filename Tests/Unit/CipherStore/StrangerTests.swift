import CipherStore
import Foundation
import TestKit
import Testing

/// Files in a store's place that are no store.
@Suite struct StrangerTests {
    private static let fixtures = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().appendingPathComponent("../../../Keys/fixtures")

    private func fixtureFile(_ name: String) throws -> Data {
        try Data(contentsOf: Self.fixtures.appendingPathComponent(name))
    }

    /// Opens a file without a sidecar in every way, and expects an error that leaves no trace.
    private func expectRefusal(
        of content: Data, _ code: StoreError.Code, with key: TestKey = .raw(0x2a), mentions: [String] = [],
        ways: [Opening] = Opening.allCases, at location: SourceLocation = #_sourceLocation
    ) throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes()
        let sidecar = try fixture.bytes(fixture.sidecar)
        try FileManager.default.removeItem(atPath: fixture.sidecar)
        try FileManager.default.removeItem(atPath: fixture.backup)
        try fixture.write(content)
        fixture.expectRefusal(code, with: key, mentions: mentions, ways: ways, at: location)
        // Files that are put back open again: nothing beside them was spoilt.
        try fixture.write(whole)
        try fixture.write(sidecar, to: fixture.sidecar)
        fixture.expectWhole(at: location)
    }

    @Test("a plain SQLite file is told as such, with the way to encrypt it")
    func plain() throws {
        try expectRefusal(of: fixtureFile("plain.db"), .notEncrypted, mentions: ["plain SQLite", "cipherctl import"])
    }

    @Test("a standard SQLCipher 4 file is not taken for a store; its owner is shown the way")
    func standard() throws {
        try expectRefusal(
            of: fixtureFile("v4-standard.db"), .settingsConflict, mentions: ["standard SQLCipher", "cipherctl adopt"])
    }

    @Test("an SQLCipher 3 file is not taken for a store; its owner is shown the way")
    func version3() throws {
        try expectRefusal(of: fixtureFile("v3-standard.db"), .settingsConflict, mentions: ["cipherctl adopt"])
    }

    @Test("a text file is no database")
    func text() throws {
        let text = String(repeating: "Dear diary, today nothing happened.\n", count: 400)
        try expectRefusal(of: Data(text.utf8), .notEncrypted, mentions: ["not a database", "left as it is"])
        try expectRefusal(of: Data("short\n".utf8), .notEncrypted, mentions: ["not a database"])
    }

    @Test("a file of zeros is no database", arguments: [1, 16, 100, 512, 4096, 65_536])
    func zeros(count: Int) throws {
        try expectRefusal(of: Data(count: count), .notEncrypted, mentions: ["not a database"])
    }

    @Test("a file that is no store is refused the same beside the sidecar of a store")
    func besideSidecar() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes()
        for name in ["plain.db", "v4-standard.db", "v3-standard.db"] {
            try fixture.write(fixtureFile(name))
            fixture.expectRefusal(name == "plain.db" ? .notEncrypted : .foreignSidecar)
        }
        try fixture.write(Data(String(repeating: "no store ", count: 2000).utf8))
        fixture.expectRefusal(.notEncrypted)
        try fixture.write(Data(count: 8192))
        fixture.expectRefusal(.notEncrypted)
        try fixture.write(whole)
        fixture.expectWhole()
    }

    @Test("a file without bytes is lost content beside a sidecar that says ready, and a new store without one")
    func empty() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes()
        try fixture.write(Data())
        fixture.expectRefusal(.emptyFile, mentions: ["Restore the file from a backup"])
        try fixture.write(whole)
        fixture.expectWhole()

        let folder = TemporaryFolder()
        for way in Opening.allCases {
            let path = folder.path("\(way).db")
            try Data().write(to: URL(fileURLWithPath: path))
            try way.open(path, .raw(1)) { writer in try writer.write { try $0.execute(sql: "CREATE TABLE t (a)") } }
            #expect(try way.open(path, .raw(1)) { writer in try writer.read { try $0.tableNames() } } == ["t"])
        }
    }

    @Test("a missing directory, a directory and a file as a directory are told as such")
    func noFile() throws {
        let folder = TemporaryFolder()
        try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path("file")))
        try FileManager.default.createDirectory(atPath: folder.path("folder"), withIntermediateDirectories: false)
        let before = FolderSnapshot(of: folder)
        for way in Opening.allCases {
            for name in ["missing/app.db", "folder", "file/app.db"] {
                let path = folder.path(name)
                let error = #expect(throws: (any Error).self) { try way.open(path, .raw(1)) { _ in } }
                let storeError = error as? StoreError
                #expect(storeError?.code == .noSuchStore, "\(way) \(name): \(String(describing: error))")
                #expect(storeError?.description.contains(path) == true)
                if let storeError { Spoken.say(way, storeError) }
            }
        }
        let changes = before.changes(until: FolderSnapshot(of: folder))
        #expect(changes.isEmpty)
    }
}

extension Database {
    /// The names of the tables of the schema.
    func tableNames() throws -> [String] {
        try String.fetchAll(self, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    }
}
