import CSQLCipher
import CipherDatabase
import Foundation
import TestKit
import Testing

/// SQLCipher's own function, which runs its second argument as a part of SQL.
@Suite struct ExportFunctionTests {
    private let folder = TemporaryFolder()

    @Test("no statement can call sqlcipher_export")
    func statements() throws {
        try DatabaseQueue().write { db throws in
            for sql in ["SELECT sqlcipher_export('temp', 'main')", "SELECT SQLCipher_Export('temp')"] {
                let error = #expect(throws: DatabaseError.self) { try db.execute(sql: sql) }
                #expect(error?.message?.contains("no such function") == true, "\(error as Any)")
            }
        }
    }

    // Story: a database of somebody else had a CHECK constraint that calls it. It was imported, and the next ordinary
    // insertion removed the rows of another table.
    @Test("a CHECK constraint that was entered by another program cannot run SQL")
    func constraint() throws {
        let path = folder.path("app.db")
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let sql = "CREATE TABLE t (a, CHECK (sqlcipher_export('temp', 'main') IS NULL))"
        let statement =
            "PRAGMA writable_schema = ON; CREATE TABLE t (a); UPDATE sqlite_schema SET sql = \""
            + sql + "\" WHERE name = 't'; CREATE TABLE u (b); INSERT INTO u VALUES (1)"
        var stock: OpaquePointer?
        #expect(sqlite3_open(path, &stock) == SQLITE_OK)
        #expect(sqlite3_exec(stock, statement, nil, nil, nil) == SQLITE_OK)
        sqlite3_close(stock)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { db throws in
            let error = #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t VALUES (1)") }
            #expect(error?.message?.contains("unknown function: sqlcipher_export") == true, "\(error as Any)")
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM main.u") == 1)
        }
        try queue.close()
    }
}
