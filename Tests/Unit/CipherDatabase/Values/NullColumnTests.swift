import CSQLCipher
import CipherDatabase
import Testing

/// The values that a program's own types read from a column with NULL.
@Suite struct NullColumnTests {
    // GRDB never calls `init(sqliteStatement:index:)` for NULL, so programs do not look for it: SQLite's functions
    // answer 0 and an empty text then. Such a type once read a NULL as a value, silently.
    private struct Score: DatabaseValueConvertible, StatementColumnConvertible, Hashable {
        var points: Int64

        init(points: Int64) { self.points = points }
        init(sqliteStatement: SQLiteStatement, index: CInt) {
            points = sqlite3_column_int64(sqliteStatement, index)
        }

        var databaseValue: DatabaseValue { points.databaseValue }
        static func fromDatabaseValue(_ value: DatabaseValue) -> Score? {
            Int64.fromDatabaseValue(value).map { Score(points: $0) }
        }
    }

    private enum Level: Int, DatabaseValueConvertible, StatementColumnConvertible {
        case zero, one

        init?(sqliteStatement: SQLiteStatement, index: CInt) {
            self.init(rawValue: Int(sqlite3_column_int64(sqliteStatement, index)))
        }
    }

    private struct Wrapped: RawRepresentable, DatabaseValueConvertible, StatementColumnConvertible {
        var rawValue: Score
    }

    private let queue = DatabaseQueue()

    @Test("a NULL is no value of a type that reads columns by itself, wherever it is fetched")
    func fetched() throws {
        try queue.read { db throws in
            #expect(try Score.fetchOne(db, sql: "SELECT NULL") == nil)
            #expect(try Level.fetchOne(db, sql: "SELECT NULL") == nil)
            #expect(try Wrapped.fetchOne(db, sql: "SELECT NULL") == nil)
            #expect(throws: RowDecodingError.self) { try Score.fetchAll(db, sql: "SELECT NULL") }
            #expect(throws: RowDecodingError.self) { try Score.fetchSet(db, sql: "SELECT NULL") }
            #expect(throws: RowDecodingError.self) { try Level.fetchCursor(db, sql: "SELECT NULL").next() }
            #expect(throws: RowDecodingError.self) { try Wrapped.fetchCursor(db, sql: "SELECT NULL").next() }
            let sql = "VALUES (NULL), (1), (0)"
            #expect(try Score?.fetchAll(db, sql: sql) == [nil, Score(points: 1), Score(points: 0)])
            #expect(try Array(Score?.fetchCursor(db, sql: sql)) == [nil, Score(points: 1), Score(points: 0)])
            #expect(try Level?.fetchAll(db, sql: sql) == [nil, .one, .zero])
            #expect(try Wrapped?.fetchAll(db, sql: sql).map { $0?.rawValue.points } == [nil, 1, 0])
        }
    }

    @Test("a NULL of a row, shown or kept, is nil, and is refused where a value must be")
    func rows() throws {
        try queue.read { db throws in
            let cursor = try Row.fetchCursor(db, sql: "SELECT NULL AS a, 1 AS b")
            let row = try #require(try cursor.next())
            for row in [row, row.copy()] {
                #expect(row[0] as Score? == nil && row["a"] as Score? == nil)
                #expect(row[0] as Level? == nil && row["a"] as Level? == nil)
                #expect((row["a"] as Wrapped?)?.rawValue == nil)
                #expect(row[1] == Score(points: 1) && row["b"] == Level.one)
                #expect(throws: RowDecodingError.self) { try row.decode(Score.self, atIndex: 0) }
            }
            let adapted = try Row.fetchOne(
                db, sql: "SELECT 1, NULL AS a", adapter: ScopeAdapter(["scope": SuffixRowAdapter(fromIndex: 1)]))
            #expect(adapted?.scopes["scope"]?[0] as Score? == nil)
        }
    }

    @Test("the library's own types are nil for NULL, and DatabaseValue is NULL itself")
    func ownTypes() throws {
        try queue.read { db throws in
            #expect(try Int?.fetchAll(db, sql: "VALUES (NULL), (0)") == [nil, 0])
            #expect(try Double?.fetchAll(db, sql: "VALUES (NULL), (0.0)") == [nil, 0])
            #expect(try Bool?.fetchAll(db, sql: "VALUES (NULL), (0)") == [nil, false])
            #expect(try String?.fetchAll(db, sql: "VALUES (NULL), ('')") == [nil, ""])
            #expect(try DatabaseValue.fetchAll(db, sql: "VALUES (NULL), (0)") == [.null, 0])
            #expect(throws: RowDecodingError.self) { try Int.fetchAll(db, sql: "SELECT NULL") }
        }
    }
}
