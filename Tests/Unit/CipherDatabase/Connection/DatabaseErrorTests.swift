import CSQLCipher
import CipherDatabase
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
