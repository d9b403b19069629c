import CipherStore
import Foundation

/// One of the four processes that share the store.
struct Worker {
    enum Role: String, CaseIterable {
        case writerA = "writer-a"
        case writerB = "writer-b"
        case reader
        case readOnly = "read-only"
    }

    /// Rows that each writer adds.
    static let rowsOfEachWriter = 500
    private static var allRows: Int { 2 * rowsOfEachWriter }
    private static let patience: TimeInterval = 45

    private let role: Role
    private let path: String
    private let key: KeySource

    init(_ arguments: ArraySlice<String>) throws {
        let arguments = Array(arguments)
        guard arguments.count == 3, let role = Role(rawValue: arguments[0]) else {
            throw DemoError("usage: StoreDemo --worker <role> <store> <key file>")
        }
        self.role = role
        path = arguments[1]
        key = .keyFile(path: arguments[2])
    }

    /// Does its part, waits until all rows are there, and prints what it sees then.
    func run() throws {
        let work: String
        let result: Checksum
        switch role {
        case .writerA, .writerB:
            let store = try SharedStore.open(at: path, unlockedBy: key, migrator: Self.migrator)
            try write(to: store)
            work = "wrote \(Self.rowsOfEachWriter) rows"
            _ = try waitForAllRows(in: store)
            result = try store.read(Checksum.init)
            try store.close()
        case .reader:
            let store = try SharedStore.open(at: path, unlockedBy: key, migrator: Self.migrator)
            work = "counted \(try waitForAllRows(in: store)) times, never fewer"
            result = try store.read(Checksum.init)
            try store.close()
        case .readOnly:
            let store = try openReadOnly()
            work = "counted \(try waitForAllRows(in: store)) times, never fewer"
            result = try store.read(Checksum.init)
            try store.close()
        }
        print("\(result.rows)|\(result.text)|\(work)")
    }

    /// The demo's own table; whichever process comes first makes it.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("visits") { db in
            try db.execute(
                sql: "CREATE TABLE demo_visit (id INTEGER PRIMARY KEY, writer TEXT NOT NULL, number INTEGER NOT NULL)")
        }
        return migrator
    }

    /// A store is not there for a reader until somebody has brought it up to date.
    private func openReadOnly() throws -> SharedStore {
        let deadline = Date() + Self.patience
        while Date() < deadline {
            if let store = try SharedStore.openReadOnly(at: path, unlockedBy: key, migrator: Self.migrator) {
                return store
            }
            Thread.sleep(forTimeInterval: 0.005)
        }
        throw DemoError("nobody migrated the store")
    }

    private func write(to store: SharedStore) throws {
        for number in 1...Self.rowsOfEachWriter {
            try store.write { db in
                try db.execute(
                    sql: "INSERT INTO demo_visit (writer, number) VALUES (?, ?)", arguments: [role.rawValue, number])
            }
            // Slow enough for the readers to watch.
            Thread.sleep(forTimeInterval: 0.001)
        }
    }

    /// - Returns: How often it counted.
    private func waitForAllRows(in store: SharedStore) throws -> Int {
        let deadline = Date() + Self.patience
        var last = 0
        var looks = 0
        while Date() < deadline {
            let count = try store.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM demo_visit") ?? 0 }
            looks += 1
            if count < last { throw DemoError("rows got lost: \(last) before, \(count) now") }
            if count == Self.allRows { return looks }
            last = count
            Thread.sleep(forTimeInterval: 0.001)
        }
        throw DemoError("only \(last) of \(Self.allRows) rows came")
    }
}

/// How many rows there are, and a number that depends on every one of them and on their order.
struct Checksum: Equatable {
    let rows: Int
    private let value: UInt64

    init(_ db: Database) throws {
        var rows = 0
        var value: UInt64 = 0xcbf2_9ce4_8422_2325
        let cursor = try Row.fetchCursor(db, sql: "SELECT id, writer, number FROM demo_visit ORDER BY id")
        while let row = try cursor.next() {
            let (id, writer, number): (Int, String, Int) = (row[0], row[1], row[2])
            // FNV-1a.
            for byte in "\(id) \(writer) \(number)\n".utf8 { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
            rows += 1
        }
        self.rows = rows
        self.value = value
    }

    var text: String { String(format: "%016llx", value) }
}

/// The fault, in a sentence.
struct DemoError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
