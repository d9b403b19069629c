import CipherDatabase
import Testing

@Suite struct SavepointTests {
    struct Failure: Error {}
    let queue: DatabaseQueue

    init() throws { queue = try Databases.queueWithTable() }

    private func values() throws -> [Int] {
        try queue.read { try Int.fetchAll($0, sql: "SELECT a FROM t ORDER BY a") }
    }

    @Test("savepoints nest; each commits or rolls back what is inside of it")
    func nesting() throws {
        try queue.write { db in
            try db.insert(1)
            try db.inSavepoint {
                try db.insert(2)
                try db.inSavepoint {
                    try db.insert(3)
                    return .rollback
                }
                #expect(throws: Failure.self) {
                    try db.inSavepoint {
                        try db.insert(4)
                        throw Failure()
                    }
                }
                try db.inSavepoint {
                    try db.insert(5)
                    return .commit
                }
                return .commit
            }
            try db.inSavepoint {
                try db.insert(6)
                try db.inSavepoint {
                    try db.insert(7)
                    return .commit
                }
                return .rollback
            }
        }
        #expect(try values() == [1, 2, 5])
    }

    @Test("a savepoint outside of transactions is a transaction")
    func outermost() throws {
        try queue.inDatabase { db in
            try db.inSavepoint {
                try db.insert(1)
                #expect(db.isInsideTransaction)
                return .commit
            }
            try db.inSavepoint {
                try db.insert(2)
                return .rollback
            }
            #expect(throws: Failure.self) {
                try db.inSavepoint {
                    try db.insert(3)
                    throw Failure()
                }
            }
            #expect(!db.isInsideTransaction)
        }
        #expect(try values() == [1])
    }

    @Test("a savepoint whose transaction SQLite rolled back throws, and so does the rest of the transaction")
    func rollbackInside() throws {
        try queue.write { try $0.execute(sql: "CREATE TABLE harsh(a UNIQUE ON CONFLICT ROLLBACK)") }
        let error = databaseError {
            try queue.write { db in
                let inner = databaseError {
                    try db.inSavepoint {
                        try db.execute(sql: "INSERT INTO harsh VALUES (1)")
                        try? db.execute(sql: "INSERT INTO harsh VALUES (1)")
                        return .commit
                    }
                }
                #expect(inner?.message == "Transaction was aborted")
                try db.insert(1)
            }
        }
        #expect(error?.message == "Transaction was aborted")
        #expect(try values() == [])
    }

    @Test("a savepoint that an interruption ended is undone, though a cursor is in its rows and the error is ignored")
    func interruption() throws {
        var escaped: RowCursor?
        try queue.write { db in
            try db.insert(1)
            let error = databaseError {
                try db.inSavepoint {
                    try db.insert(2)
                    escaped = try Row.fetchCursor(db, sql: "VALUES (1), (2), (3)")
                    _ = try escaped?.next()
                    queue.interrupt()
                    _ = try Row.fetchOne(db, sql: "SELECT 1")
                    return .commit
                }
            }
            #expect(error?.resultCode == .SQLITE_INTERRUPT)
            #expect(db.isInsideTransaction)
            try db.insert(3)
        }
        escaped = nil
        #expect(try values() == [1, 3])
    }
}
