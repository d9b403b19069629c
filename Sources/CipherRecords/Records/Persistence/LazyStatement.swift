import CipherDatabase
import CipherSchema

/// A statement that is compiled when it is first used.
final class LazyStatement {
    let sql: String
    // While nobody else refers to it, nobody steps through it, and it is free.
    @exclusivity(unchecked) private var statement: Statement?
    private(set) var compilationCount = 0

    init(sql: String) { self.sql = sql }

    func free(_ db: Database) throws -> Statement {
        if isKnownUniquelyReferenced(&statement), let statement { return statement }
        let fresh = try db.makeStatement(sql: sql, persistent: true)
        statement = fresh
        compilationCount += 1
        return fresh
    }
}
