import CipherDatabase
import Foundation
import Testing

@Suite struct RowAdapterTests {
    let queue = DatabaseQueue()
    private let sql = "SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d UNION ALL SELECT 5, 6, 7, 8"

    /// The first row as `fetchOne` gives it, after a check that cursors and `fetchAll` give the same.
    private func first(_ adapter: any RowAdapter) throws -> Row {
        try queue.read { db in
            let one = try #require(try Row.fetchOne(db, sql: sql, adapter: adapter))
            #expect(try Row.fetchAll(db, sql: sql, adapter: adapter).first == one)
            let cursor = try Row.fetchCursor(db, sql: sql, adapter: adapter)
            let live = try #require(try cursor.next())
            #expect(live == one)
            let copy = live.copy()
            #expect(try cursor.next()?.map(\.1) != one.map(\.1) || one.isEmpty)
            #expect(copy == one)
            return one
        }
    }

    @Test("adapters show a suffix, a range, nothing, other names, and some columns in the statement's order")
    func columns() throws {
        #expect(try first(SuffixRowAdapter(fromIndex: 2)) == ["c": 3, "d": 4])
        #expect(try first(RangeRowAdapter(1..<3)) == ["b": 2, "c": 3])
        #expect(try first(RangeRowAdapter(1...1)) == ["b": 2])
        #expect(try first(EmptyRowAdapter()) == Row())
        #expect(try first(RenameColumnAdapter { $0 + $0 }) == ["aa": 1, "bb": 2, "cc": 3, "dd": 4])
        #expect(try first(ColumnMapping(["x": "D", "y": "a"])) == ["y": 1, "x": 4])
        #expect(try first(ColumnMapping(["x": "b", "y": "c"]))["Y"] as Int == 3)
    }

    @Test("an adapted row reads by position, by name, optional and as NULL, live and copied")
    func reading() throws {
        try queue.read { db throws in
            let sql = "SELECT 0, NULL AS a, 'text' AS b, x'0102' AS c"
            for live in [true, false] {
                let cursor = try Row.fetchCursor(db, sql: sql, adapter: SuffixRowAdapter(fromIndex: 1))
                let row = try #require(try live ? cursor.next() : cursor.next()?.copy())
                #expect(row[0] as Int? == nil && row["a"] as Date? == nil && row.hasNull(atIndex: 0))
                #expect(row[1] as String == "text" && row["B"] as String == "text" && !row.hasNull(atIndex: 1))
                #expect(row.withUnsafeData(named: "c") { $0 == Data([1, 2]) })
                #expect(try row.decode(Data.self, forColumn: "c") == Data([1, 2]))
                #expect(row.databaseValue(at: 1) == "text")
            }
        }
    }

    @Test("scopes are rows within a row, at every depth")
    func scopes() throws {
        let row = try first(
            ScopeAdapter(
                base: RangeRowAdapter(0..<1),
                scopes: [
                    "inner": RangeRowAdapter(1..<3).addingScopes(["deep": SuffixRowAdapter(fromIndex: 3)]),
                    "mapped": ColumnMapping(["x": "a", "y": "d"]),
                ]))
        #expect(row.columnNames == ["a"])
        #expect(row.scopes["inner"]?.columnNames == ["b", "c"])
        #expect(row.scopes["inner"]?.unscoped == ["b": 2, "c": 3])
        #expect(row.scopes["mapped"] == ["x": 1, "y": 4])
        #expect(row.scopes["inner"]?.scopes["deep"] == ["d": 4])
        #expect(row.scopes["deep"] == nil && row.scopesTree["deep"] == ["d": 4] && row.scopesTree["none"] == nil)
        #expect(Set(row.scopes.names) == ["inner", "mapped"] && row.scopes.count == 2)
        #expect(row.scopesTree.names == ["inner", "mapped", "deep"])
        #expect(Set(row.scopes.map(\.name)) == ["inner", "mapped"])
        #expect(row.unscoped == ["a": 1] && row.unscoped.scopes.isEmpty && row != row.unscoped)
        #expect(row.unadapted == ["a": 1, "b": 2, "c": 3, "d": 4])
    }

    @Test("scopes are added to scopes, and one of the same name takes the place")
    func addingScopes() throws {
        let base = ScopeAdapter(["x": RangeRowAdapter(0..<1), "y": RangeRowAdapter(1..<2)])
        let row = try first(base.addingScopes(["y": RangeRowAdapter(2..<3)]))
        #expect(row.count == 4)
        #expect(row.scopes["x"] == ["a": 1] && row.scopes["y"] == ["c": 3])
        #expect(try first(base.addingScopes([:])).scopes["y"] == ["b": 2])
        let plain = try #require(try queue.read { try Row.fetchOne($0, sql: sql) })
        #expect(plain.scopes.isEmpty && plain.scopesTree.names.isEmpty)
        #expect(plain.unadapted === plain && plain.unscoped === plain)
    }

    @Test("a row is cut into pieces by their widths")
    func splitting() throws {
        let adapters = splittingRowAdapters(columnCounts: [1, 2])
        let names = ["x", "y", "z"]
        let row = try first(ScopeAdapter(Dictionary(uniqueKeysWithValues: zip(names, adapters))))
        #expect(names.map { row.scopes[$0]?.map(\.1) ?? [] } == [[1], [2, 3], [4]])
        #expect(splittingRowAdapters(columnCounts: []).count == 1)
    }

    @Test("values come from the first column that an adapter shows")
    func values() throws {
        try queue.read { db throws in
            let adapter = SuffixRowAdapter(fromIndex: 2)
            #expect(try Int.fetchAll(db, sql: sql, adapter: adapter) == [3, 7])
            #expect(try Int.fetchOne(db, sql: sql, adapter: adapter) == 3)
            #expect(try Int.fetchSet(db, sql: sql, adapter: adapter) == [3, 7])
            #expect(try Int.fetchCursor(db, sql: sql, adapter: adapter).next() == 3)
            #expect(try Decimal.fetchAll(db, sql: sql, adapter: adapter) == [3, 7])
            #expect(try Decimal.fetchOne(db, sql: sql, adapter: adapter) == 3)
        }
    }

    @Test("an adapter whose columns are not there is an error, with or without rows")
    func missingColumns() throws {
        let adapters: [any RowAdapter] = [
            ColumnMapping(["x": "missing"]), RangeRowAdapter(2..<5), SuffixRowAdapter(fromIndex: 5),
            SuffixRowAdapter(fromIndex: -1), ScopeAdapter(["x": ColumnMapping(["y": "missing"])]),
        ]
        try queue.read { db in
            for adapter in adapters {
                for sql in [sql, "SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d WHERE 0"] {
                    let errors = [
                        databaseError { try Row.fetchAll(db, sql: sql, adapter: adapter) },
                        databaseError { try Row.fetchCursor(db, sql: sql, adapter: adapter) },
                        databaseError { try Int.fetchAll(db, sql: sql, adapter: adapter) },
                    ]
                    #expect(errors.allSatisfy { $0?.resultCode == .SQLITE_MISUSE })
                }
            }
            let error = databaseError { try Row.fetchOne(db, sql: sql, adapter: adapters[0]) }
            #expect(error?.message?.contains("missing") == true && error?.message?.contains("a, b, c, d") == true)
            #expect(databaseError { try Int.fetchOne(db, sql: sql, adapter: EmptyRowAdapter()) } != nil)
        }
    }

    @Test("a row holds something where it or one of its scopes has a value that is not NULL")
    func containsNonNullValue() throws {
        try queue.read { db throws in
            let adapter = ScopeAdapter(base: RangeRowAdapter(0..<1), scopes: ["x": SuffixRowAdapter(fromIndex: 1)])
            func holds(_ sql: String, _ adapter: (any RowAdapter)? = nil) throws -> Bool? {
                try Row.fetchOne(db, sql: sql, adapter: adapter)?.containsNonNullValue
            }
            #expect(try holds("SELECT NULL, 0") == true)
            #expect(try holds("SELECT NULL, NULL") == false)
            #expect(try holds("SELECT NULL, 0", adapter) == true)
            #expect(try holds("SELECT NULL, NULL", adapter) == false)
            #expect(!Row().containsNonNullValue)
        }
    }
}
