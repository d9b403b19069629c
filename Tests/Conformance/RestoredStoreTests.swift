import CipherStore
import Foundation
import TestKit
import Testing

/// Stores that came from a backup are read by stock SQLCipher, as others are.
@Suite struct RestoredStoreTests {
    @Test(
        "stock SQLCipher opens a restored store, and the backup itself, with what is revealed of its key",
        arguments: StockSQLCipher.allCases, KeyScheme.allCases)
    func opens(stock: StockSQLCipher, scheme: KeyScheme) throws {
        try stock.requirePresence()
        let folder = TemporaryFolder()
        var configuration = Configuration()
        configuration.keyScheme = scheme
        let source = TestKeys.source("raw")
        let store = try SharedStore.open(at: folder.path("app.db"), unlockedBy: source, configuration: configuration)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'zwei')")
        }
        try store.backup(toFolder: folder.path("backup"))
        try store.write { try $0.execute(sql: "DELETE FROM t") }
        try store.close()
        try SharedStore.restore(from: folder.path("backup"), to: folder.path("restored.db"), unlockedBy: source)
        let restored = try SharedStore.open(at: folder.path("restored.db"), unlockedBy: source)
        let key = try restored.keys.reveal()
        let keyspec = key.withKeyspec { String(decoding: $0, as: UTF8.self) }
        try restored.close()
        for path in [folder.path("restored.db"), folder.path("backup/store.db")] {
            let rows = try stock.run(
                path,
                [
                    "PRAGMA key = \"\(keyspec)\"",
                    "PRAGMA cipher_plaintext_header_size = \(key.plaintextHeaderBytes)",
                    "SELECT b FROM t ORDER BY a", "PRAGMA cipher_integrity_check",
                ])
            #expect(rows == ["one", "zwei"])
        }
    }
}
