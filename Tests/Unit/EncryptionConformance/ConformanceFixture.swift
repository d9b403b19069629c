import CipherStore
import EncryptionConformance
import Foundation
import TestKit

/// A folder with a store; its raw key costs no derivation.
struct ConformanceFixture {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    var source: KeySource { TestKeys.source("raw") }

    static let content = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
        INSERT INTO note SELECT i, printf('note %d %s', i, hex(zeroblob(150))) FROM c;
        """

    func openStore() throws -> SharedStore { try SharedStore.open(at: path, unlockedBy: source) }

    func makeStore() throws {
        let store = try openStore()
        try store.write { try $0.execute(sql: Self.content) }
        try store.checkpoint(.truncate)
        try store.close()
    }

    func makePlain() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: Self.content) }
        try queue.close()
    }

    /// A configuration with the raw key and the salt in the header, as SQLCipher has it.
    func standard(_ careless: @escaping @Sendable (Database) throws -> Void = { _ in }) -> Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(TestKeys.rawKey))
            try careless(db)
        }
        return configuration
    }

    func makeStandard() throws {
        let queue = try DatabaseQueue(path: path, configuration: standard())
        try queue.inDatabase { try $0.execute(sql: Self.content) }
        try queue.close()
    }

    func run(_ change: (inout StoreFile) -> Void = { _ in }) throws -> Conformance.Report {
        var file = StoreFile(path, unlockedBy: source)
        change(&file)
        return try Conformance(of: file).run()
    }

    /// Overwrites bytes of a file that nobody has open.
    func poke(_ suffix: String = "", at offset: Int, _ bytes: [UInt8]) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path + suffix))
        try file.seek(toOffset: UInt64(offset))
        try file.write(contentsOf: bytes)
        try file.close()
    }

    func bytes(_ suffix: String = "") throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: path + suffix)))
    }

    func setMode(_ mode: Int, _ suffix: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path + suffix)
    }
}

extension Conformance.Report {
    /// The names of the checks that failed.
    var failed: Set<Check> { Set(failures.map(\.check)) }

    func evidence(_ check: Check) -> String { self[check]?.evidence.joined(separator: "\n") ?? "" }
}
