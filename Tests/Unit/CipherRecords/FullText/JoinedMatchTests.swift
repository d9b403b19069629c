import CipherDatabase
import CipherRecords
import CipherSchema
import Testing

/// Full-text tables in joins.
@Suite struct JoinedMatchTests {
    private struct Doc: TableRecord, FetchableRecord, Codable, Equatable {
        static let index = hasOne(Table("ft"), using: ForeignKey(["rowid"], to: ["id"]))
        var id: Int64
    }

    // Story: `"ft" MATCH ?` was ambiguous if a joined table had a column `ft`.
    @Test(
        "a pattern is that of the full-text table, whatever columns the joined tables have",
        arguments: ["fts5(t)", "fts4(t)"])
    func ambiguous(_ module: String) throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(
                sql: """
                    CREATE TABLE doc (id INTEGER PRIMARY KEY, t, ft);
                    CREATE VIRTUAL TABLE ft USING \(module);
                    INSERT INTO doc (id, ft) VALUES (1, 'sea'), (2, 'ice');
                    INSERT INTO ft (rowid, t) VALUES (1, 'ice'), (2, 'sea');
                    """)
            let pattern = try FTS3Pattern(rawPattern: "sea")
            let alias = TableAlias<Row>()
            let named = TableAlias<Row>(name: "index")
            for association in [
                Doc.index.matching(pattern), Doc.index.aliased(alias).matching(pattern),
                Doc.index.aliased(named).matching(pattern), Doc.index.matching(pattern).aliased(named),
            ] {
                #expect(try Doc.joining(required: association).fetchAll(db) == [Doc(id: 2)])
                #expect(try Doc.joining(required: association).fetchCount(db) == 1)
            }
            #expect(try Table("ft").aliased(named).matching(pattern).fetchCount(db) == 1)
            #expect(try Table("ft").matching(pattern).fetchCount(db) == 1)
        }
    }

    @Test("a common table expression is looked into by its name in a join of itself")
    func commonTable() throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: "CREATE TABLE doc (id INTEGER PRIMARY KEY); INSERT INTO doc VALUES (1), (2)")
            let some = CommonTableExpression<Row>(named: "some", sql: "SELECT 1 AS id")
            let joined = some.association(to: Table("doc"), on: { $0["id"] == $1["id"] })
            let alias = TableAlias<Row>(name: "other")
            for request in [some.all(), some.all().aliased(alias)] {
                let found = request.with(some).joining(required: joined).filter(some.contains(Column("id")))
                #expect(try found.fetchCount(db) == 1)
            }
        }
    }
}
