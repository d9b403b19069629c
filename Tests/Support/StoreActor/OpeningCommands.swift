import CipherStore
import Foundation
import TestKit

extension Actor {
    /// Opening and closing: `open PATH KEY [BUSY-SECONDS]`, `create-shared PATH KEY MODE` under umask 077,
    /// `open-read-only PATH KEY`, `open-pool PATH PASSPHRASE`, `coordinated-open PATH KEY`, `close`.
    static let openingCommands: [String: Command] = [
        "open": { actor, words in
            var config = Configuration()
            if words.count > 2, let seconds = Double(words[2]) {
                config.busyMode = seconds > 0 ? .timeout(seconds) : .immediateError
            }
            return try actor.open(words[0], words[1], config)
        },
        "create-shared": { actor, words in
            umask(0o077)
            var config = Configuration()
            config.fileMode = Int(words[2], radix: 8) ?? 0
            return try actor.open(words[0], words[1], config)
        },
        "open-read-only": { actor, words in
            let store = try SharedStore.openReadOnly(
                at: words[0], unlockedBy: TestKeys.source(words[1]), migrator: migrator)
            actor.store = store
            return store?.storeID.description ?? "nil"
        },
        "open-pool": { actor, words in
            actor.pool = try openByHand(path: words[0], passphrase: words[1])
            return ""
        },
        "coordinated-open": { actor, words in
            try actor.coordinator.coordinate(writingItemAt: URL(fileURLWithPath: words[0])) {
                try actor.open($0.path, words[1], Configuration())
            }
        },
        "close": { actor, _ in
            try actor.store?.close()
            try actor.pool?.close()
            (actor.store, actor.pool) = (nil, nil)
            return ""
        },
    ]

    func open(_ path: String, _ key: String, _ configuration: Configuration) throws -> String {
        let opened = try SharedStore.open(
            at: path, unlockedBy: TestKeys.source(key), configuration: configuration, migrator: Self.migrator)
        store = opened
        return opened.storeID.description
    }

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("account") { db in
            try db.execute(
                sql: "CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT NOT NULL, balance INTEGER NOT NULL)")
        }
        migrator.registerMigration("marks") { db in
            try db.execute(sql: "CREATE TABLE mark (id INTEGER PRIMARY KEY, process INTEGER, text TEXT)")
            // How often the migration ran: more than once would be an error.
            try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, 'migrated')", arguments: [getpid()])
        }
        migrator.registerMigration("transfers") { db in
            try db.execute(
                sql: "CREATE TABLE transfer (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, "
                    + "amount INTEGER NOT NULL)")
        }
        return migrator
    }

    /// Opens a pool as users of GRDB do it.
    private static func openByHand(path: String, passphrase: String) throws -> DatabasePool {
        var config = Configuration()
        config.busyMode = .timeout(10)
        config.prepareDatabase { db in
            try db.usePassphrase(passphrase)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        let pool = try DatabasePool(path: path, configuration: config)
        try migrator.migrate(pool)
        return pool
    }
}
