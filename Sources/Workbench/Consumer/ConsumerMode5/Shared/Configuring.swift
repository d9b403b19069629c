import CipherStore
import Dispatch
import Foundation

// The settings and calls of programs, in code that both language modes take. Each function checks what it shows.

/// A failed check ends the program.
func check(_ condition: Bool, _ what: String, line: Int = #line) {
    guard !condition else { return }
    print("failed at line \(line): \(what)")
    exit(1)
}

/// The calls of a hook, from any thread.
// Safe because: the lock guards the lines.
final class Journal: @unchecked Sendable {
    private let lock = NSLock()
    private var lines: [String] = []

    func add(_ line: String) {
        lock.lock()
        lines.append(line)
        lock.unlock()
    }

    var text: String {
        lock.lock()
        defer { lock.unlock() }
        return lines.joined(separator: "\n")
    }
}

/// Every property of a configuration, and what comes of it.
func setEveryProperty(in folder: URL) throws {
    var config = Configuration()
    check(config.foreignKeysEnabled && !config.readonly && config.label == nil, "the defaults are GRDB's")
    check(config.maximumReaderCount == 5 && config.qos == .userInitiated, "the defaults are GRDB's")
    check(!config.acceptsDoubleQuotedStringLiterals && !config.allowsUnsafeTransactions, "the defaults are GRDB's")
    config.readonly = false
    config.label = "player"
    config.foreignKeysEnabled = false
    config.acceptsDoubleQuotedStringLiterals = true
    config.publicStatementArguments = true
    config.allowsUnsafeTransactions = true
    config.defaultTransactionKind = .deferred
    config.defaultTransactionKind = .exclusive
    config.defaultTransactionKind = .immediate
    config.busyMode = .immediateError
    config.busyMode = .callback { numberOfTries in numberOfTries < 3 }
    config.busyMode = .timeout(5.0)
    config.maximumReaderCount = 2
    config.qos = .default
    config.targetQueue = DispatchQueue(label: "player", attributes: .concurrent)
    config.writeTargetQueue = DispatchQueue(label: "player.write")
    config.journalMode = .wal
    config.transactionClock = .custom { _ in Date(timeIntervalSince1970: 0) }
    config.schemaSource = nil
    config.persistentReadOnlyConnections = true
    check(config.automaticMemoryManagement, "the defaults are GRDB's")
    config.automaticMemoryManagement = false
    config.suspendsOnBackgroundTimeExpiration = true
    check(config.observesSuspensionNotifications, "the early name sets the same")
    config.observesSuspensionNotifications = false
    check(!config.suspendsOnBackgroundTimeExpiration, "the early name tells the same")
    let journal = Journal()
    config.prepareDatabase { db in journal.add("first \(db)") }
    config.prepareDatabase = nil
    config.prepareDatabase = { (db: Database) in
        try db.usePassphrase("correct horse battery staple")
        db.trace { journal.add("\($0)") }
    }
    config.prepareDatabase { db in journal.add("\(db) \(db.configuration.label ?? "") \(db.configuration.readonly)") }
    let pool = try DatabasePool(path: folder.appendingPathComponent("configured.db").path, configuration: config)
    try usePool(pool)
    check(journal.text.contains("player.writer player false"), "the writer has its name and label")
    check(journal.text.contains("player.reader.1 player true"), "a reader has its name")
    check(!journal.text.contains("first"), "setting the hook to nil removed the first one")
    check(journal.text.contains("VALUES ('traced')"), "public arguments show in the trace")
    check(!journal.text.contains("staple"), "a key never shows")
    try pool.close()
}

private func usePool(_ pool: DatabasePool) throws {
    try pool.write { db in
        try db.execute(sql: "CREATE TABLE t (a)")
        try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: ["traced"])
        try db.execute(sql: "INSERT INTO t VALUES (\"double-quoted\")")
        check(try db.transactionDate == Date(timeIntervalSince1970: 0), "the clock is the configuration's")
    }
    let names = try pool.read { db in try String.fetchAll(db, sql: "SELECT a FROM t ORDER BY a") }
    check(names == ["double-quoted", "traced"], "both rows are there")
    // An unsafe transaction goes on over two accesses.
    try pool.writeWithoutTransaction { db in
        try db.beginTransaction()
        try db.execute(sql: "DELETE FROM t")
    }
    try pool.unsafeReentrantWrite { db in
        check(db.isInsideTransaction, "the transaction was left open")
        try db.rollback()
    }
    check(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 2, "it was rolled back")
}

/// The names of connections and queues of which nobody gave one.
func nameConnections(in folder: URL) throws {
    var config = Configuration()
    config.prepareDatabase { try $0.useRawKey(Data(repeating: 1, count: 32)) }
    let pool = try DatabasePool(path: folder.appendingPathComponent("names.db").path, configuration: config)
    check(pool.writeWithoutTransaction { "\($0)" } == "CipherStore.DatabasePool.writer", "the writer")
    check(try pool.read { "\($0)" } == "CipherStore.DatabasePool.reader.1", "the first reader")
    check(try pool.makeSnapshot().read { "\($0)" } == "CipherStore.DatabasePool.snapshot.1", "the first snapshot")
    check(DatabaseQueue().inDatabase { "\($0)" } == "CipherStore.DatabaseQueue", "a queue")
    config.label = "L"
    check(DatabaseQueue(configuration: config).inDatabase { "\($0)" } == "L", "a queue with a label")
    try pool.close()
}

/// The key before and after the plaintext header, with both spellings of the hook, and the bytes on disk.
func giveKeys(in folder: URL) throws {
    let passphrase = "correct horse battery staple"
    let header = "PRAGMA cipher_plaintext_header_size = 32"
    var keyFirst = Configuration()
    keyFirst.prepareDatabase { db in
        try db.usePassphrase(passphrase)
        try db.execute(sql: header)
    }
    var headerFirst = Configuration()
    headerFirst.prepareDatabase = { db in
        try db.execute(sql: header)
        try db.usePassphrase(Data(passphrase.utf8))
    }
    for (name, config) in [("key-first.db", keyFirst), ("header-first.db", headerFirst)] {
        let path = folder.appendingPathComponent(name).path
        let queue = try DatabaseQueue(path: path, configuration: config)
        try queue.write { try $0.execute(sql: "CREATE TABLE secret (word); INSERT INTO secret VALUES ('xyzzy')") }
        do {
            try queue.writeWithoutTransaction { try $0.changePassphrase("another") }
            check(false, "a key is not changed in place")
        } catch DatabaseError.SQLITE_MISUSE {}
        try queue.close()
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        check(bytes.prefix(15) == Data("SQLite format 3".utf8), "the header is readable")
        check(bytes.range(of: Data("xyzzy".utf8)) == nil, "the rows are not")
        // Each order opens what the other has made.
        let other = name == "key-first.db" ? headerFirst : keyFirst
        let word = try DatabaseQueue(path: path, configuration: other).read {
            try String.fetchOne($0, sql: "SELECT word FROM secret")
        }
        check(word == "xyzzy", "the word is read back")
    }
    refuseWrongKey(folder.appendingPathComponent("key-first.db").path, header: header)
}

private func refuseWrongKey(_ path: String, header: String) {
    var wrong = Configuration()
    wrong.prepareDatabase { db in
        try db.usePassphrase("wrong")
        try db.execute(sql: header)
    }
    do {
        _ = try DatabaseQueue(path: path, configuration: wrong)
        check(false, "a wrong key opens nothing")
    } catch DatabaseError.SQLITE_NOTADB {
        // As around SQLCipher alone; `catch StoreError.wrongKey` tells more.
    } catch {
        check(false, "\(error)")
    }
    do {
        _ = try DatabasePool(path: path)
        check(false, "no key opens nothing")
    } catch StoreError.keyMissing {
    } catch {
        check(false, "\(error)")
    }
}
