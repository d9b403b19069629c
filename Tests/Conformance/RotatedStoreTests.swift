import CipherStore
import Foundation
import KeyRotation
import TestKit
import Testing

/// Stores with a rotated key are read and written by stock SQLCipher, as others are.
@Suite struct RotatedStoreTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private static let formerSource = TestKeys.source("raw")
    /// The key of a direct store behind its rotation.
    private static let newSource = KeySource.rawKey([UInt8](repeating: 0x5c, count: 32))

    /// The answers of stock SQLCipher before it is asked anything else.
    private func pragmas(_ store: SharedStore) throws -> [String] {
        let key = try store.keys.reveal()
        let keyspec = key.withKeyspec { String(decoding: $0, as: UTF8.self) }
        return [
            "PRAGMA key = \"\(keyspec)\"", "PRAGMA cipher_plaintext_header_size = \(key.plaintextHeaderBytes)",
        ]
    }

    /// - Returns: The pragmas of the former key.
    private func makeAndRotate(_ scheme: KeyScheme) throws -> [String] {
        var configuration = Configuration()
        configuration.keyScheme = scheme
        let store = try SharedStore.open(at: path, unlockedBy: Self.formerSource, configuration: configuration)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'zwei')")
        }
        let former = try pragmas(store)
        let mode: KeyRotation.Mode = scheme == .direct ? .newKey(Self.newSource) : .newDataKey
        try KeyRotation(store, options: KeyRotation.Options(mode: mode)).run()
        // The connections of a direct store are closed by then.
        try? store.close()
        return former
    }

    @Test(
        "stock SQLCipher opens a rotated store with what is revealed of its key, writes to it, and not with the former key",
        arguments: StockSQLCipher.allCases, KeyScheme.allCases)
    func opens(stock: StockSQLCipher, scheme: KeyScheme) throws {
        try stock.requirePresence()
        let former = try makeAndRotate(scheme)
        let source = scheme == .direct ? Self.newSource : Self.formerSource
        let store = try SharedStore.open(at: path, unlockedBy: source)
        #expect(store.epoch == 2)
        let present = try pragmas(store)
        try store.close()
        let rows = try stock.run(path, present + ["SELECT b FROM t ORDER BY a", "PRAGMA cipher_integrity_check"])
        #expect(rows == ["one", "zwei"])
        _ = try stock.run(path, present + ["INSERT INTO t VALUES (3, 'three')"])
        #expect(throws: (any Error).self) { try stock.run(path, former + ["SELECT b FROM t"]) }
        let reopened = try SharedStore.open(at: path, unlockedBy: source)
        #expect(try reopened.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 3)
        try reopened.close()
    }
}
