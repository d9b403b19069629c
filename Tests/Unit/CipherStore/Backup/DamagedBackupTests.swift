import CipherStore
import Foundation
import TestKit
import Testing

/// Backups that were changed: each is refused by name, and nothing is written.
@Suite("Damaged backups")
struct DamagedBackupTests {
    private let bench: BackupBench
    private static let files = ["store.db", "store.db-sidecar", "manifest.json"]

    init() throws {
        bench = try BackupBench()
        try bench.backUp()
    }

    private func change(_ name: String, _ change: (inout [UInt8]) -> Void) throws {
        var bytes = try bench.bytes(bench.bundle + "/" + name)
        change(&bytes)
        try bench.write(bytes, to: bench.bundle + "/" + name)
    }

    private func expectRefusal(
        _ codes: Set<StoreError.Code> = [.backupDamaged], at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try BackupBench.tree(bench.folder.url.path)
        let error = #expect(throws: StoreError.self, sourceLocation: location) { try bench.restore() }
        #expect(error.map { codes.contains($0.code) } == true, "\(String(describing: error))", sourceLocation: location)
        let verified = #expect(throws: StoreError.self, sourceLocation: location) {
            try SharedStore.verifyBackup(at: bench.bundle, unlockedBy: bench.source)
        }
        #expect(verified?.code == error?.code, sourceLocation: location)
        #expect(try BackupBench.tree(bench.folder.url.path) == before, sourceLocation: location)
    }

    @Test("a bit that is changed anywhere is found", arguments: files)
    func flipped(name: String) throws {
        let length = try bench.bytes(bench.bundle + "/" + name).count
        let whole = try bench.bytes(bench.bundle + "/" + name)
        let step = name == "manifest.json" ? 7 : max(1, length / 40)
        for offset in stride(from: 3, to: length, by: step) {
            try change(name) { $0[offset] ^= 1 }
            try expectRefusal([.backupDamaged, .sidecarAhead, .wrongKey])
            try bench.write(whole, to: bench.bundle + "/" + name)
        }
        try bench.restore()
    }

    @Test("a file that is cut, longer or missing is found", arguments: files)
    func lengths(name: String) throws {
        let whole = try bench.bytes(bench.bundle + "/" + name)
        for bytes in [[], Array(whole.dropLast()), Array(whole.dropLast(4096)), whole + [0]] {
            try bench.write(bytes, to: bench.bundle + "/" + name)
            try expectRefusal()
        }
        try FileManager.default.removeItem(atPath: bench.bundle + "/" + name)
        try expectRefusal()
    }

    @Test("a manifest whose hashes were made to fit changed files is found by its code")
    func forgedManifest() throws {
        // A second backup gives the hash that fits other files; only the key could seal them together.
        let store = try bench.open()
        try store.write { try $0.execute(sql: "UPDATE note SET text = text || '!' WHERE id = 1") }
        try store.close()
        try bench.backUp(to: bench.folder.path("later"))
        let other = try String(contentsOfFile: bench.folder.path("later/manifest.json"), encoding: .utf8)
        let line = try #require(other.split(separator: "\n").first { $0.contains("\"database\"") })
        let own = try String(contentsOfFile: bench.bundle + "/manifest.json", encoding: .utf8)
        let ownLine = try #require(own.split(separator: "\n").first { $0.contains("\"database\"") })
        try bench.write(
            Array(own.replacingOccurrences(of: ownLine, with: line).utf8), to: bench.bundle + "/manifest.json")
        try bench.write(bench.bytes(bench.folder.path("later/store.db")), to: bench.bundle + "/store.db")
        try expectRefusal()
    }

    @Test(
        "a sidecar or a database of another store under the same key is found",
        arguments: ["store.db", "store.db-sidecar"])
    func mixed(name: String) throws {
        let stranger = try BackupBench()
        try stranger.backUp()
        try bench.write(stranger.bytes(stranger.bundle + "/" + name), to: bench.bundle + "/" + name)
        try expectRefusal()
    }

    @Test("what is no folder, or an empty one, is no backup")
    func noBackup() throws {
        try bench.expect(.noSuchStore) { try bench.restore(from: bench.folder.path("none")) }
        try bench.expect(.noSuchStore) { try bench.restore(from: bench.path) }
        let empty = bench.folder.path("empty")
        try FileManager.default.createDirectory(atPath: empty, withIntermediateDirectories: false)
        try bench.expect(.backupDamaged) { try bench.restore(from: empty) }
    }

    @Test("a manifest of a later version is told from damage")
    func laterVersion() throws {
        let text = try String(contentsOfFile: bench.bundle + "/manifest.json", encoding: .utf8)
        let later = text.replacingOccurrences(of: "\"version\": 1", with: "\"version\": 2")
        try bench.write(Array(later.utf8), to: bench.bundle + "/manifest.json")
        try expectRefusal([.sidecarAhead])
    }
}
