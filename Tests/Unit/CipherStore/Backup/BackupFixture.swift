import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// A store with known content, its backup, and what is expected of both. Raw keys cost no derivation.
final class BackupFixture: Sendable {
    let folder = TemporaryFolder()
    let scheme: KeyScheme
    var path: String { folder.path("app.db") }
    var bundle: String { folder.path("backup") }
    var restored: String { folder.path("restored.db") }
    var source: KeySource { TestKeys.source("raw") }

    static let rows = 400

    init(_ scheme: KeyScheme = .direct) throws {
        self.scheme = scheme
        let store = try open()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
            for index in 1...Self.rows {
                try db.execute(
                    sql: "INSERT INTO note (text) VALUES (?)",
                    arguments: ["note \(index) " + String(repeating: "x", count: 300)])
            }
        }
        try store.close()
    }

    func open(_ path: String? = nil) throws -> SharedStore {
        var configuration = Configuration()
        configuration.keyScheme = scheme
        return try SharedStore.open(at: path ?? self.path, unlockedBy: source, configuration: configuration)
    }

    /// Makes a backup of the store, and closes it again.
    @discardableResult
    func backUp(to folder: String? = nil) throws -> BackupReport {
        let store = try open()
        defer { try? store.close() }
        return try store.backup(toFolder: folder ?? bundle)
    }

    @discardableResult
    func restore(from folder: String? = nil, to path: String? = nil, replacing: Bool = false) throws
        -> RestorationReport
    {
        try SharedStore.restore(
            from: folder ?? bundle, to: path ?? restored, unlockedBy: source, replacing: replacing)
    }

    /// All rows of a store, in order.
    func content(_ path: String) throws -> [String] {
        let store = try open(path)
        defer { try? store.close() }
        #expect(try store.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        return try store.read { try String.fetchAll($0, sql: "SELECT id || text FROM note ORDER BY id") }
    }

    // MARK: Files

    func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

    func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    /// The names in the folder of the test.
    func names() throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path))
    }

    /// Expects an error with a code, and no change of any file.
    func expect(
        _ code: StoreError.Code, at location: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) throws {
        let before = try Self.tree(folder.url.path)
        let error = #expect(throws: StoreError.self, sourceLocation: location) { try body() }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: location)
        let after = try Self.tree(folder.url.path)
        #expect(after == before, sourceLocation: location)
    }

    /// Every file below a folder with its bytes, without lock files and what SQLite makes to read.
    static func tree(_ folder: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder)
        where !["-lock", "-shm", "-keylog"].contains(where: name.hasSuffix) {
            files[name] = FileManager.default.contents(atPath: folder + "/" + name) ?? Data()
        }
        return files
    }
}
