import CipherStore
import Foundation

/// A backup of a store, beside SQLite's own way to copy a database.
enum BackupWork {
    /// The whole of a backup - every page authenticated, written, made durable, read back, authenticated and hashed - beside
    /// SQLite's backup API, which decrypts and encrypts every page and verifies nothing of what it wrote.
    static func wholeStore(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let path = fixture.path(of: "backed-up.db")
        var config = Configuration()
        config.keyScheme = .direct
        let key = [UInt8](repeating: 0x2a, count: 32)
        let store = try SharedStore.open(at: path, unlockedBy: .rawKey(key), configuration: config)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a BLOB)")
            for _ in 0..<5_000 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(10000))") }
        }
        try store.checkpoint(.full)
        var number = 0
        let measurement = try comparison.measure(
            work.name, goal: work.goal, prepare: { number += 1 },
            library: {
                let folder = fixture.path(of: "backup-\(number)")
                try store.backup(toFolder: folder)
                try FileManager.default.removeItem(atPath: folder)
            },
            baseline: {
                let copy = fixture.path(of: "copy-\(number).db")
                var config = Configuration()
                config.prepareDatabase { db in
                    try db.useRawKey(Data(repeating: 0x17, count: 32))
                    try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
                }
                let queue = try DatabaseQueue(path: copy, configuration: config)
                try store.backup(to: queue)
                try queue.close()
                for ending in ["", "-wal", "-shm", "-journal"] {
                    try? FileManager.default.removeItem(atPath: copy + ending)
                }
            })
        try store.close()
        return measurement
    }
}
