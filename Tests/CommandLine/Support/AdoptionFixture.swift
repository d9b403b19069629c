import CipherStore
import Foundation
import Testing

/// Standard SQLCipher files, and the commands that make stores of them.
struct AdoptionFixture {
    let place: Workplace

    init() throws { self.init(try Workplace()) }

    init(_ place: Workplace) { self.place = place }

    static let content = """
        CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 500)
        INSERT INTO t SELECT i, hex(randomblob(50)) FROM c;
        """

    func adopt(_ name: String, _ more: String..., key: String? = nil) throws -> CommandRun.Outcome {
        try place.run(["adopt", place.path(name), "--json", "--raw-key-file", key ?? place.key] + more)
    }

    // MARK: Standard files

    /// Opens a standard file with the raw key, as a program without CipherStore's sidecar would.
    func openStandard(_ name: String, settings: String? = nil, readonly: Bool = false) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = readonly
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            if let settings { try db.execute(sql: settings) }
        }
        return try DatabaseQueue(path: place.path(name), configuration: configuration)
    }

    func makeStandard(_ name: String, journal: String = "DELETE", settings: String? = nil) throws {
        let queue = try openStandard(name, settings: settings)
        try queue.inDatabase { db in
            _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = \(journal)")
            try db.execute(sql: Self.content)
        }
        try queue.close()
    }

    func standardRows(_ name: String, settings: String? = nil) throws -> [String] {
        let queue = try openStandard(name, settings: settings)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: "SELECT text FROM t ORDER BY id") }
    }

    // MARK: Stores

    func openStore(_ name: String) throws -> SharedStore {
        try SharedStore.open(at: place.path(name), unlockedBy: .rawKeyFile(path: place.key))
    }

    func storeRows(_ name: String) throws -> [String] {
        let store = try openStore(name)
        defer { try? store.close() }
        return try store.read { try String.fetchAll($0, sql: "SELECT text FROM t ORDER BY id") }
    }

    func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: place.path(name))[.posixPermissions] as? Int
    }

    // MARK: The stock shell

    static let shell = SystemProgram.find("sqlcipher")

    @discardableResult
    func runShell(_ name: String, _ script: String) throws -> String {
        let program = try #require(Self.shell)
        let outcome = try CommandRun(program, ["-batch", "-bail", place.path(name)], input: script).finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.output
    }
}
