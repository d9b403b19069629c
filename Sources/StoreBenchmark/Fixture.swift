import CBaseline
import CipherStore
import Foundation

/// A store of one table of ten integer columns, with its key in the forms that library and C need.
final class Fixture {
    static let rowCount = 200_000
    let folder: URL
    let path: String
    let passphrase = "benchmark passphrase"
    /// The salt as SQLCipher's pragma takes it.
    let saltLiteral: String
    private let keyspec: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("benchmark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appendingPathComponent("app.db").path
        // A key of fixed bytes: this file holds numbers from 1 to 200,000.
        let key = String(repeating: "2a", count: 32)
        let salt = String(repeating: "17", count: 16)
        keyspec = "x'\(key)\(salt)'"
        saltLiteral = "x'\(salt)'"
        let pool = try pool()
        try pool.write { db in
            let columns = (0..<10).map { "c\($0)" }
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, \(columns.joined(separator: ", ")))")
            let marks = Array(repeating: "?", count: 10).joined(separator: ", ")
            let insert = try db.makeStatement(
                sql: "INSERT INTO t (\(columns.joined(separator: ", "))) VALUES (\(marks))")
            for row in 0..<Self.rowCount {
                try insert.execute(arguments: StatementArguments((0..<10).map { row + $0 }))
            }
        }
        try pool.checkpoint()
        try pool.close()
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// The library's pool on the store, keyed raw.
    func pool(byPassphrase: Bool = false, path: String? = nil) throws -> DatabasePool {
        var config = Configuration()
        config.prepareDatabase { [passphrase, saltLiteral] db in
            if byPassphrase {
                try db.usePassphrase(passphrase)
            } else {
                try db.useRawKey(Data(repeating: 0x2a, count: 32))
            }
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
            try db.execute(sql: "PRAGMA cipher_salt = \"\(saltLiteral)\"")
        }
        return try DatabasePool(path: path ?? self.path, configuration: config)
    }

    /// Plain C on the same file with the same key.
    func baseline() throws -> OpaquePointer {
        guard let baseline = baseline_open(path, keyspec) else {
            throw BenchmarkError(description: "C could not open the file")
        }
        return baseline
    }
}
