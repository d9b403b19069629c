import CipherDatabase
import Foundation
import StorePlatform
import TestKit
import Testing

@Suite struct EncryptedPoolTests {
    let folder = TemporaryFolder()

    private func encrypted() -> Configuration {
        var config = Configuration()
        config.prepareDatabase { db in
            try db.usePassphrase("secret")
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        return config
    }

    @Test("a pool opened by hand keeps its salt in the sidecar and opens again")
    func opensAgain() throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: encrypted())
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE t(a INTEGER, b TEXT)")
            try db.execute(sql: "INSERT INTO t VALUES (?, ?)", arguments: [1, "one"])
        }
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 1)
        #expect(try pool.read { try Row.fetchOne($0, sql: "SELECT * FROM t")?["B"] as String? } == "one")
        try pool.close()
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(bytes.prefix(16) == Data("SQLite format 3\0".utf8))
        #expect(FileManager.default.fileExists(atPath: path + "-sidecar"))
        let again = try DatabasePool(path: path, configuration: encrypted())
        #expect(try again.read { try Row.fetchAll($0, sql: "SELECT * FROM t") } == [["a": 1, "b": "one"]])
    }

    @Test("a wrong passphrase is told apart from damage")
    func wrongKey() throws {
        let path = folder.path("app.db")
        try DatabasePool(path: path, configuration: encrypted()).close()
        var config = Configuration()
        config.prepareDatabase { try $0.usePassphrase("wrong") }
        #expect(storeError { try DatabasePool(path: path, configuration: config) } == .wrongKey)
    }

    @Test("a file database without a key is refused")
    func keyMissing() throws {
        #expect(storeError { try DatabaseQueue(path: folder.path("plain.db")) } == .keyMissing)
    }
}
