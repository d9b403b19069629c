import CBaseline
import CipherStore
import Foundation

/// Stores for the benchmark in a folder of their own, with the key in the forms that library and C need.
final class Fixture {
    static let rowCount = 200_000
    /// Of shared stores.
    static let keySource = KeySource.rawKey([UInt8](repeating: 0x2a, count: 32))
    let folder: URL
    /// A store of one table of ten integer columns, to read from.
    let path: String
    let passphrase = "benchmark passphrase"
    /// The salt as SQLCipher's pragma takes it.
    let saltLiteral: String
    let keyspec: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("benchmark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appendingPathComponent("app.db").path
        // A key of fixed bytes: these files hold nothing that is worth a secret.
        let key = String(repeating: "2a", count: 32)
        let salt = String(repeating: "17", count: 16)
        keyspec = "x'\(key)\(salt)'"
        saltLiteral = "x'\(salt)'"
        let pool = try pool(at: path)
        try Self.fill(pool)
        try pool.close()
    }

    private static func fill(_ writer: some DatabaseWriter) throws {
        try writer.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, \(tenColumns))")
            let insert = try db.makeStatement(sql: insertTen)
            for row in 0..<rowCount { try insert.execute(arguments: (0..<10).map { row + $0 }) }
        }
        try writer.checkpoint()
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// `c0, c1, ... c9`
    static let tenColumns = (0..<10).map { "c\($0)" }.joined(separator: ", ")
    static let insertTen = "INSERT INTO t (\(tenColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

    func path(of name: String) -> String { folder.appendingPathComponent(name).path }

    /// A shared store with the rows of the store at ``path``.
    func sharedStore() throws -> SharedStore {
        let store = try SharedStore.open(at: path(of: "shared-\(UUID().uuidString).db"), unlockedBy: Self.keySource)
        try Self.fill(store)
        return store
    }

    /// The library's pool on a store.
    ///
    /// - Parameter cachePages: How many pages each connection keeps; nil for SQLite's own number.
    func pool(at path: String, byPassphrase: Bool = false, cachePages: Int? = nil) throws -> DatabasePool {
        var config = Configuration()
        config.prepareDatabase { [passphrase, saltLiteral] db in
            if byPassphrase {
                try db.usePassphrase(passphrase)
            } else {
                try db.useRawKey(Data(repeating: 0x2a, count: 32))
            }
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
            try db.execute(sql: "PRAGMA cipher_salt = \"\(saltLiteral)\"")
            if let cachePages { try db.execute(sql: "PRAGMA cache_size = \(cachePages)") }
        }
        return try DatabasePool(path: path, configuration: config)
    }

    /// Plain C on a store, with the same key and settings.
    func baseline(at path: String, cachePages: Int? = nil) throws -> Baseline {
        let baseline = try Baseline(path: path, keyspec: keyspec)
        if let cachePages { try baseline.execute("PRAGMA cache_size = \(cachePages)") }
        return baseline
    }
}

/// A connection of plain C.
final class Baseline {
    let connection: OpaquePointer

    init(path: String, keyspec: String) throws {
        guard let connection = baseline_open(path, keyspec) else {
            throw BenchmarkError(description: "C could not open the file")
        }
        self.connection = connection
    }

    deinit { baseline_close(connection) }

    func execute(_ sql: String) throws {
        let code = baseline_execute(connection, sql)
        try BenchmarkError.require(code == 0, "C: \(code) for \(sql)")
    }
}

struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    /// Throws unless a measured piece of work did what it was to do.
    static func require(_ condition: Bool, _ failure: String) throws {
        if !condition { throw BenchmarkError(description: failure) }
    }
}
