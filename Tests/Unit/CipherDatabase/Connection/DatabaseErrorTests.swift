import CSQLCipher
import CipherDatabase
import Foundation
import StorePlatform
import Testing

@Suite struct DatabaseErrorTests {
    /// Which `catch` takes an error, in the forms that programs use.
    private func caught(_ error: any Error) -> String {
        do {
            throw error
        } catch DatabaseError.SQLITE_CONSTRAINT_UNIQUE {
            return "unique"
        } catch DatabaseError.SQLITE_CONSTRAINT {
            return "constraint"
        } catch DatabaseError.SQLITE_BUSY_SNAPSHOT, DatabaseError.SQLITE_BUSY_RECOVERY {
            return "busy in a special way"
        } catch DatabaseError.SQLITE_BUSY {
            return "busy"
        } catch DatabaseError.SQLITE_INTERRUPT, DatabaseError.SQLITE_ABORT {
            return "interrupted"
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            return "read-only"
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_IOERR_FSYNC {
            return "not synced"
        } catch let error as DatabaseError {
            return "other \(error.resultCode.rawValue)"
        } catch {
            return "no database error"
        }
    }

    @Test("every form of catch takes what it names: an extended code itself, a primary code all of its extended ones")
    func catching() {
        func caught(_ code: ResultCode) -> String { self.caught(DatabaseError(resultCode: code)) }
        #expect(caught(.SQLITE_CONSTRAINT_UNIQUE) == "unique")
        #expect(caught(.SQLITE_CONSTRAINT_CHECK) == "constraint")
        #expect(caught(.SQLITE_CONSTRAINT) == "constraint")
        #expect(caught(.SQLITE_BUSY_SNAPSHOT) == "busy in a special way")
        #expect(caught(.SQLITE_BUSY) == "busy")
        #expect(caught(.SQLITE_ABORT_ROLLBACK) == "interrupted")
        #expect(caught(.SQLITE_INTERRUPT) == "interrupted")
        #expect(caught(.SQLITE_READONLY_DBMOVED) == "read-only")
        #expect(caught(.SQLITE_IOERR_FSYNC) == "not synced")
        #expect(caught(.SQLITE_IOERR_LOCK) == "other 10")
        #expect(self.caught(CancellationError()) == "no database error")
    }

    @Test("an error of the store as a whole is caught by the code that SQLite alone would have given")
    func storeErrors() {
        func caught(_ code: StoreError.Code) -> String {
            do {
                throw StoreError(code, what: "", why: "", remedy: "")
            } catch DatabaseError.SQLITE_NOTADB {
                return "no database"
            } catch DatabaseError.SQLITE_CORRUPT {
                return "damaged"
            } catch DatabaseError.SQLITE_BUSY, DatabaseError.SQLITE_CANTOPEN, DatabaseError.SQLITE_MISUSE {
                return "not now"
            } catch let error as StoreError where error.code == .schemaAhead {
                return "ahead"
            } catch {
                return "other"
            }
        }
        #expect(caught(.wrongKey) == "no database" && caught(.keyMissing) == "no database")
        #expect(caught(.pageDamaged(1)) == "damaged" && caught(.truncated) == "damaged")
        #expect(caught(.storeInUse) == "not now" && caught(.noSuchStore) == "not now")
        #expect(caught(.storeClosed) == "not now")
        #expect(caught(.schemaAhead) == "ahead" && caught(.unsupportedLibrary) == "other")
    }

    @Test("an error is an NSError with a domain, its extended code and its text, and without the arguments")
    func nsError() {
        let error = DatabaseError(
            resultCode: .SQLITE_CONSTRAINT_UNIQUE, message: "twice", sql: "INSERT", arguments: ["secret"])
        let bridged = error as NSError
        #expect(bridged.domain == DatabaseError.errorDomain)
        #expect(bridged.code == 2067)
        #expect(bridged.localizedDescription == error.description)
        #expect(bridged.localizedFailureReason == "twice")
        #expect(!bridged.localizedDescription.contains("secret"))
        #expect(error.arguments == nil)
        let open = DatabaseError(arguments: ["shown"], publicStatementArguments: true)
        #expect(open.arguments == ["shown"])
    }

    @Test("a switch over a code takes primary codes for their extended ones, and not the other way round")
    func patterns() {
        func name(_ code: ResultCode) -> String {
            switch code {
            case .SQLITE_CONSTRAINT_NOTNULL: "not null"
            case .SQLITE_CONSTRAINT: "constraint"
            default: "other"
            }
        }
        #expect(name(.SQLITE_CONSTRAINT_NOTNULL) == "not null")
        #expect(name(.SQLITE_CONSTRAINT_UNIQUE) == "constraint")
        #expect(name(.SQLITE_OK) == "other")
        #expect(!(ResultCode.SQLITE_CONSTRAINT_UNIQUE ~= ResultCode.SQLITE_CONSTRAINT))
        #expect(ResultCode.SQLITE_CONSTRAINT_UNIQUE.primaryResultCode == .SQLITE_CONSTRAINT)
    }

    @Test("an error made by hand has SQLite's own words unless it brings others")
    func making() {
        #expect(DatabaseError().resultCode == .SQLITE_ERROR)
        #expect(DatabaseError(message: "own words").description == "SQLite error 1: own words")
        #expect(DatabaseError(resultCode: ResultCode(rawValue: SQLITE_FULL)).message == "database or disk is full")
        let error = DatabaseError(resultCode: .SQLITE_CONSTRAINT_UNIQUE, message: "twice", sql: "INSERT")
        #expect(error.description == "SQLite error 19: twice - while executing `INSERT`")
        #expect(error.extendedResultCode.rawValue == 2067)
        #expect(ResultCode.SQLITE_BUSY.description == "5 (database is locked)")
    }

    /// The error of a table with 2,000 columns had 17 KB of SQL.
    @Test("the message about a text without its closing quote does not repeat the rest of the SQL")
    func unclosedQuote() throws {
        // Story: the unrecognized token was the rest of a script, with its values.
        let queue = DatabaseQueue()
        let error = #expect(throws: DatabaseError.self) {
            try queue.inDatabase { try $0.execute(sql: "SELECT '" + String(repeating: "v", count: 10_000)) }
        }
        #expect((error?.message?.count ?? .max) <= 201 && (error?.description.count ?? .max) < 500)
    }

    @Test("descriptions have 200 characters of a long statement, and the error has all of it")
    func longStatement() {
        let sql = String(repeating: "é", count: 201)
        let error = DatabaseError(message: "no", sql: sql, arguments: [1])
        let cut = "SQLite error 1: no - while executing `\(String(repeating: "é", count: 200))\u{2026}`"
        #expect(error.description == cut)
        #expect(error.expandedDescription == cut + " with arguments [1]")
        #expect((error as NSError).localizedDescription == cut && error.sql == sql)
        let short = String(sql.dropFirst())
        #expect(DatabaseError(message: "no", sql: short).description.hasSuffix("`\(short)`"))
    }

    // The error had the whole script, with the values of the statements after the one that failed.
    @Test("the error of a script carries the statement that does not compile, not the rest")
    func script() throws {
        let queue = DatabaseQueue()
        let trigger = "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t WHERE nosuch(; END"
        for failing in ["INSERT INTO nosuch VALUES (1)", "SELEC 'a;b'", trigger] {
            let script = "CREATE TABLE t (a); \(failing); INSERT INTO t VALUES ('secret');"
            let error = #expect(throws: DatabaseError.self) {
                try queue.inDatabase { try $0.execute(sql: script) }
            }
            #expect(error?.sql == failing)
            let literal = #expect(throws: DatabaseError.self) {
                try queue.inDatabase { try $0.execute(literal: SQL(sql: "DROP TABLE t; " + script)) }
            }
            #expect(literal?.sql == failing)
            let cursor = #expect(throws: DatabaseError.self) {
                try queue.inDatabase { db in
                    let statements = try db.allStatements(sql: "DROP TABLE t; " + script)
                    while let statement = try statements.next() { try statement.execute() }
                }
            }
            #expect(cursor?.sql == failing)
            try queue.inDatabase { try $0.execute(sql: "DROP TABLE t") }
        }
        let first = #expect(throws: DatabaseError.self) {
            try queue.inDatabase { try $0.execute(sql: "SELECT nosuch; SELECT 'secret'") }
        }
        #expect(first?.sql == "SELECT nosuch")
        let unfinished = #expect(throws: DatabaseError.self) {
            try queue.inDatabase { try $0.execute(sql: "SELECT 'a;b") }
        }
        #expect(unfinished?.sql == "SELECT 'a;b")
    }

    @Test("interruptions and aborts say that the access may succeed later")
    func interruptions() {
        #expect(DatabaseError(resultCode: .SQLITE_INTERRUPT).isInterruptionError)
        #expect(DatabaseError(resultCode: .SQLITE_ABORT_ROLLBACK).isInterruptionError)
        #expect(!DatabaseError(resultCode: .SQLITE_BUSY).isInterruptionError)
    }

    @Test("the codes are SQLite's")
    func codes() {
        let pairs: [(ResultCode, Int32)] = [
            (.SQLITE_OK, SQLITE_OK), (.SQLITE_ERROR, SQLITE_ERROR), (.SQLITE_PERM, SQLITE_PERM),
            (.SQLITE_ABORT, SQLITE_ABORT), (.SQLITE_BUSY, SQLITE_BUSY), (.SQLITE_LOCKED, SQLITE_LOCKED),
            (.SQLITE_NOMEM, SQLITE_NOMEM), (.SQLITE_READONLY, SQLITE_READONLY), (.SQLITE_INTERRUPT, SQLITE_INTERRUPT),
            (.SQLITE_IOERR, SQLITE_IOERR), (.SQLITE_CORRUPT, SQLITE_CORRUPT), (.SQLITE_NOTFOUND, SQLITE_NOTFOUND),
            (.SQLITE_FULL, SQLITE_FULL), (.SQLITE_CANTOPEN, SQLITE_CANTOPEN), (.SQLITE_PROTOCOL, SQLITE_PROTOCOL),
            (.SQLITE_SCHEMA, SQLITE_SCHEMA), (.SQLITE_TOOBIG, SQLITE_TOOBIG), (.SQLITE_CONSTRAINT, SQLITE_CONSTRAINT),
            (.SQLITE_MISMATCH, SQLITE_MISMATCH), (.SQLITE_MISUSE, SQLITE_MISUSE), (.SQLITE_AUTH, SQLITE_AUTH),
            (.SQLITE_RANGE, SQLITE_RANGE), (.SQLITE_NOTADB, SQLITE_NOTADB), (.SQLITE_NOTICE, SQLITE_NOTICE),
            (.SQLITE_WARNING, SQLITE_WARNING), (.SQLITE_ROW, SQLITE_ROW), (.SQLITE_DONE, SQLITE_DONE),
        ]
        for (code, value) in pairs { #expect(code.rawValue == value) }
    }
}
