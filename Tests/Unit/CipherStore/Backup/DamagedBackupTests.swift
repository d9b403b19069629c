import CipherStore
import Foundation
import TestKit
import Testing

/// Backups that were changed: each is refused by name, and nothing is written.
@Suite("Damaged backups")
struct DamagedBackupTests {
    private let fixture: BackupFixture
    private static let files = ["store.db", "store.db-sidecar", "manifest.json"]

    init() throws {
        fixture = try BackupFixture()
        try fixture.backUp()
    }

    private func change(_ name: String, _ change: (inout [UInt8]) -> Void) throws {
        var bytes = try fixture.bytes(fixture.bundle + "/" + name)
        change(&bytes)
        try fixture.write(bytes, to: fixture.bundle + "/" + name)
    }

    private func expectRefusal(
        _ codes: Set<StoreError.Code> = [.backupDamaged], at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try BackupFixture.tree(fixture.folder.url.path)
        let error = #expect(throws: StoreError.self, sourceLocation: location) { try fixture.restore() }
        #expect(error.map { codes.contains($0.code) } == true, "\(String(describing: error))", sourceLocation: location)
        let verified = #expect(throws: StoreError.self, sourceLocation: location) {
            try SharedStore.verifyBackup(at: fixture.bundle, unlockedBy: fixture.source)
        }
        #expect(verified?.code == error?.code, sourceLocation: location)
        #expect(try BackupFixture.tree(fixture.folder.url.path) == before, sourceLocation: location)
    }

    @Test("a bit that is changed anywhere is found", arguments: files)
    func flipped(name: String) throws {
        let length = try fixture.bytes(fixture.bundle + "/" + name).count
        let whole = try fixture.bytes(fixture.bundle + "/" + name)
        let step = name == "manifest.json" ? 7 : max(1, length / 40)
        for offset in stride(from: 3, to: length, by: step) {
            try change(name) { $0[offset] ^= 1 }
            try expectRefusal([.backupDamaged, .sidecarAhead, .wrongKey])
            try fixture.write(whole, to: fixture.bundle + "/" + name)
        }
        try fixture.restore()
    }

    @Test("a file that is cut, longer or missing is found", arguments: files)
    func lengths(name: String) throws {
        let whole = try fixture.bytes(fixture.bundle + "/" + name)
        for bytes in [[], Array(whole.dropLast()), Array(whole.dropLast(4096)), whole + [0]] {
            try fixture.write(bytes, to: fixture.bundle + "/" + name)
            try expectRefusal()
        }
        try FileManager.default.removeItem(atPath: fixture.bundle + "/" + name)
        try expectRefusal()
    }

    @Test("a manifest whose hashes were made to fit changed files is found by its code")
    func forgedManifest() throws {
        // A second backup gives the hash that fits other files; only the key could seal them together.
        let store = try fixture.open()
        try store.write { try $0.execute(sql: "UPDATE note SET text = text || '!' WHERE id = 1") }
        try store.close()
        try fixture.backUp(to: fixture.folder.path("later"))
        let other = try String(contentsOfFile: fixture.folder.path("later/manifest.json"), encoding: .utf8)
        let line = try #require(other.split(separator: "\n").first { $0.contains("\"database\"") })
        let own = try String(contentsOfFile: fixture.bundle + "/manifest.json", encoding: .utf8)
        let ownLine = try #require(own.split(separator: "\n").first { $0.contains("\"database\"") })
        try fixture.write(
            Array(own.replacingOccurrences(of: ownLine, with: line).utf8), to: fixture.bundle + "/manifest.json")
        try fixture.write(fixture.bytes(fixture.folder.path("later/store.db")), to: fixture.bundle + "/store.db")
        try expectRefusal()
    }

    @Test(
        "a sidecar or a database of another store under the same key is found",
        arguments: ["store.db", "store.db-sidecar"])
    func mixed(name: String) throws {
        let stranger = try BackupFixture()
        try stranger.backUp()
        try fixture.write(stranger.bytes(stranger.bundle + "/" + name), to: fixture.bundle + "/" + name)
        try expectRefusal()
    }

    @Test("what is no folder, or an empty one, is no backup")
    func noBackup() throws {
        try fixture.expect(.noSuchStore) { try fixture.restore(from: fixture.folder.path("none")) }
        try fixture.expect(.noSuchStore) { try fixture.restore(from: fixture.path) }
        let empty = fixture.folder.path("empty")
        try FileManager.default.createDirectory(atPath: empty, withIntermediateDirectories: false)
        try fixture.expect(.noSuchStore) { try fixture.restore(from: empty) }
    }

    @Test("a manifest of a later version is told from damage")
    func laterVersion() throws {
        let text = try String(contentsOfFile: fixture.bundle + "/manifest.json", encoding: .utf8)
        let later = text.replacingOccurrences(of: "\"version\": 1", with: "\"version\": 2")
        try fixture.write(Array(later.utf8), to: fixture.bundle + "/manifest.json")
        try expectRefusal([.sidecarAhead])
    }
}
