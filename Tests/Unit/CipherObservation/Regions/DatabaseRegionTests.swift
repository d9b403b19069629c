import CipherDatabase
import CipherObservation
import CipherRecords
import Testing

/// Regions: sets of tables, columns and rows.
@Suite struct DatabaseRegionTests {
    private let full = DatabaseRegion.fullDatabase
    private let shelf = DatabaseRegion(table: "shelf")
    private let labels = DatabaseRegion(table: "shelf", columns: ["label", "id"])
    private let heights = DatabaseRegion(table: "shelf", columns: ["id", "height"])
    private let low = DatabaseRegion(table: "shelf", rowIds: [1, 2])
    private let high = DatabaseRegion(table: "shelf", rowIds: [2, 3])
    private let jar = DatabaseRegion(table: "jar")

    @Test("a union covers both")
    func unions() {
        #expect(full.union(shelf).description == "full database")
        #expect(DatabaseRegion().union(DatabaseRegion()).description == "empty")
        #expect(labels.union(heights).description == "shelf(height,id,label)")
        #expect(labels.union(shelf).description == "shelf(*)")
        #expect(low.union(high).description == "shelf(*)[1,2,3]")
        #expect(low.union(labels).description == "shelf(*)")
        #expect(shelf.union(jar).description == "jar(*),shelf(*)")
        let (left, right) = (labels.intersection(low), heights.intersection(high))
        #expect(left.union(right).description == "shelf(height,id,label)[1,2,3]")
        var region = DatabaseRegion()
        region.formUnion(jar)
        #expect(region == jar && !region.isEmpty)
    }

    @Test("an intersection is what both have")
    func intersections() {
        #expect(full.intersection(labels).description == "shelf(id,label)")
        #expect(labels.intersection(full).description == "shelf(id,label)")
        #expect(labels.intersection(heights).description == "shelf(id)")
        #expect(labels.intersection(low).description == "shelf(id,label)[1,2]")
        #expect(low.intersection(high).description == "shelf(*)[2]")
        #expect(low.intersection(DatabaseRegion(table: "shelf", rowIds: [7])).isEmpty)
        #expect(shelf.intersection(jar).isEmpty && DatabaseRegion().intersection(full).isEmpty)
    }

    @Test("names are compared as SQLite does, without regard to case")
    func names() {
        #expect(shelf == DatabaseRegion(table: "SHELF"))
        #expect(labels == DatabaseRegion(table: "shelf", columns: ["ID", "Label"]))
        #expect(labels != heights && low != high && shelf != jar && full != DatabaseRegion())
        #expect(labels.isModified(byEventsOfKind: .update(tableName: "Shelf", columnNames: ["LABEL"])))
    }

    @Test("insertions and deletions change any columns, updates those that they set")
    func kinds() {
        for kind in [DatabaseEventKind.insert(tableName: "shelf"), .delete(tableName: "shelf")] {
            #expect(labels.isModified(byEventsOfKind: kind) && full.isModified(byEventsOfKind: kind))
            #expect(
                !jar.isModified(byEventsOfKind: kind) && !DatabaseRegion().isModified(byEventsOfKind: kind))
        }
        #expect(
            !labels.isModified(byEventsOfKind: .update(tableName: "shelf", columnNames: ["height"])))
        #expect(shelf.isModified(byEventsOfKind: .update(tableName: "shelf", columnNames: ["height"])))
    }

    // MARK: What is read

    private func region(_ sql: String) throws -> String {
        try DatabaseQueue.pantry().inDatabase { db in
            try db.execute(sql: "CREATE VIEW tall AS SELECT label FROM shelf WHERE height > 1")
            return try db.makeStatement(sql: sql).databaseRegion.description
        }
    }

    /// The end of the text before, which SQLite compiles to nothing, counted as what the next statement reads.
    @Test("what a request reads has nothing to do with the statement that was compiled before its own")
    func afterRecording() throws {
        let queue = try DatabaseQueue.pantry()
        try queue.read { db in
            // The facts of the schema are known from then on.
            _ = try Table("jar").all().databaseRegion(db)
            var region = DatabaseRegion()
            _ = try db.recordingRegion(&region) { try Int.fetchAll(db, sql: "SELECT height FROM shelf") }
            #expect(region.description == "shelf(height)")
            #expect(try Table("jar").select(Column("content")).databaseRegion(db).description == "jar(content)")
        }
    }

    @Test(
        "a statement's region is what SQLite reads for it",
        arguments: [
            ("SELECT LABEL FROM SHELF WHERE height > 1", "shelf(height,label)"),
            (
                "SELECT shelf.label FROM shelf JOIN jar ON jar.shelfID = shelf.id",
                "jar(shelfID),shelf(id,label)"
            ),
            ("SELECT COUNT(*) FROM Shelf", "shelf(*)"), ("SELECT 1", "empty"),
            ("SELECT * FROM tall", "shelf(height,label),tall(label)"),
            ("WITH c AS (SELECT shelfID FROM jar) SELECT COUNT(*) FROM c", "jar(*)"),
            ("SELECT value FROM json_each('[1]')", "empty"),
            ("SELECT content FROM jar UNION SELECT label FROM shelf", "jar(content),shelf(label)"),
            ("SELECT id FROM jar", "jar(*)"),
            ("PRAGMA table_info(shelf)", "empty"),
            ("SELECT name FROM sqlite_schema", "sqlite_master(name)"),
        ])
    func statements(sql: String, expected: String) throws { #expect(try region(sql) == expected) }

    @Test("a region is found again when the schema has changed")
    func changedSchema() throws {
        try DatabaseQueue.pantry().inDatabase { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM jar")
            #expect(statement.databaseRegion.description == "jar(content,id,shelfID)")
            try db.execute(sql: "ALTER TABLE jar ADD COLUMN lid")
            _ = try Row.fetchAll(statement)
            #expect(statement.databaseRegion.description == "jar(content,id,lid,shelfID)")
        }
    }

    @Test(
        "a statement says which changes it may cause",
        arguments: [
            ("INSERT INTO jar DEFAULT VALUES", [DatabaseEventKind.insert(tableName: "jar")]),
            ("DELETE FROM shelf", [.delete(tableName: "shelf"), .delete(tableName: "jar")]),
            (
                "UPDATE shelf SET label = 1, height = 2",
                [.update(tableName: "shelf", columnNames: ["label", "height"])]
            ),
            ("SELECT * FROM jar", []),
        ])
    func eventKinds(sql: String, expected: [DatabaseEventKind]) throws {
        let kinds = try DatabaseQueue.pantry().inDatabase { try $0.makeStatement(sql: sql).databaseEventKinds }
        #expect(Set(kinds) == Set(expected))
    }

    // MARK: Requests

    private struct Shelf: TableRecord {
        static let databaseTableName = "shelf"
        static let jars = hasMany(Jar.self)
    }

    private struct Jar: TableRecord {
        static let databaseTableName = "jar"
        static let shelf = belongsTo(Shelf.self)
    }

    private func region(_ request: some DatabaseRegionConvertible) throws -> String {
        try DatabaseQueue.pantry().inDatabase { try request.databaseRegion($0).description }
    }

    private let all = "shelf(height,id,label)"

    @Test("a request that names rowids is narrowed to them")
    func narrowed() throws {
        let id = Column("id")
        #expect(try region(Shelf.filter(key: 1)) == all + "[1]")
        #expect(try region(Shelf.filter(keys: [1, 2])) == all + "[1,2]")
        #expect(try region(Shelf.filter(key: ["id": 3])) == all + "[3]")
        #expect(try region(Shelf.filter(id == 1)) == all + "[1]")
        #expect(try region(Shelf.filter(1 === Column.rowID)) == all + "[1]")
        #expect(try region(Shelf.filter(id == 1 && Column("label") == "x")) == all + "[1]")
        #expect(try region(Shelf.filter(id == 1 || Column.rowID == 2)) == all + "[1,2]")
        #expect(try region(Shelf.filter([4, 5].contains(id))) == all + "[4,5]")
        #expect(try region(Shelf.filter(key: 1).filter(sql: "height > 1")) == all + "[1]")
        let alias = TableAlias(name: "s")
        #expect(try region(Shelf.aliased(alias).filter(alias[id] == 1)) == all + "[1]")
        #expect(try region(AnyFetchRequest(Shelf.filter(key: 1))) == all + "[1]")
        #expect(
            try region(Shelf.filter(key: 1).adapted { _ in SuffixRowAdapter(fromIndex: 1) }) == all
                + "[1]")
        #expect(try region(AnyDatabaseRegionConvertible(Shelf.filter(key: 1))) == all + "[1]")
    }

    /// A long list is a query, in which no rowid was found: the region was empty, and that of what is included too.
    @Test("many keys of several columns leave all rows, and what is included", arguments: [2, 64, 65, 300])
    func manyKeys(_ count: Int) throws {
        func keys(_ columns: String...) -> [[String: (any DatabaseValueConvertible)?]] {
            (1...count).map { number in Dictionary(uniqueKeysWithValues: columns.map { ($0, number) }) }
        }
        let narrowed = all + "[" + (1...count).map(String.init).joined(separator: ",") + "]"
        let expected = count > 64 ? all : narrowed
        let jars = "jar(content,id,shelfID),"
        for keys in [keys("height", "id"), keys("id", "label"), keys("id")] {
            #expect(try region(Shelf.filter(keys: keys)) == expected)
            #expect(try region(Shelf.filter(keys: keys).including(all: Shelf.jars)) == jars + expected)
        }
        let other = [["height": 1, "id": nil] as [String: (any DatabaseValueConvertible)?]]
        #expect(try region(Shelf.filter(keys: keys("height", "id") + other)) == expected)
        #expect(try region(Shelf.filter(keys: Array(1...count))) == expected)
        #expect(try region(Shelf.filter(Array(1...count).contains(Column("id")))) == expected)
    }

    @Test("conditions that nothing fulfils need no region")
    func nothing() throws {
        let id = Column("id")
        #expect(try region(Shelf.none()) == "empty")
        #expect(try region(Shelf.filter(id == nil)) == "empty")
        #expect(try region(Shelf.filter(nil === id)) == "empty")
        #expect(try region(Shelf.filter(id == 1 && id == 2)) == "empty")
        #expect(try region(Shelf.filter(key: 1).filter(key: 2)) == "empty")
        #expect(try region(Shelf.filter(keys: [Int]())) == "empty")
    }

    @Test("what is included for no row needs no region")
    func nothingIncluded() throws {
        let shelf = Jar.belongsTo(Shelf.self).forKey("own")
        #expect(try region(Shelf.none().including(all: Shelf.jars)) == "empty")
        #expect(try region(Shelf.including(all: Shelf.jars.none())) == all)
        #expect(
            try region(
                Jar.including(
                    all: Jar.hasMany(Jar.self, using: ForeignKey(["shelfID"], to: ["id"])).none()
                        .including(required: shelf))) == "jar(content,id,shelfID)")
        let inner = Shelf.jars.including(
            all: Jar.hasMany(Shelf.self, using: ForeignKey(["id"], to: ["shelfID"])).none())
        #expect(try region(Shelf.filter(key: 1).including(all: inner)) == "jar(content,id,shelfID)," + all + "[1]")
        let outer = Shelf.jars.none()
            .including(all: Jar.hasMany(Shelf.self, using: ForeignKey(["id"], to: ["shelfID"])).forKey("shelves"))
        #expect(try region(Shelf.filter(key: 1).including(all: outer)) == all + "[1]")
    }

    @Test("other conditions leave all rows")
    func notNarrowed() throws {
        let id = Column("id")
        #expect(try region(Shelf.all()) == all)
        #expect(try region(Shelf.filter(id >= 1)) == all)
        #expect(try region(Shelf.filter(id == 1 || Column("label") == "x")) == all)
        #expect(try region(Shelf.filter(id == "1")) == all)
        #expect(try region(Shelf.filter(Column("label") == 1)) == all)
        #expect(try region(SQLRequest<Row>(sql: "SELECT * FROM shelf WHERE id = 1")) == all)
        #expect(try region(Table("Shelf")) == "shelf(*)")
    }

    @Test("a table that is read twice is not narrowed")
    func readTwice() throws {
        #expect(
            try region(Shelf.filter(key: 1).filter(sql: "height > (SELECT AVG(height) FROM shelf)"))
                == all)
        let higher = Shelf.select(Column("id")).filter(Column("height") > 1)
        #expect(try region(Shelf.filter(key: 1).filter(higher.contains(Column("id")))) == all)
        let both = Jar.filter(key: 2).joining(required: Jar.shelf.joining(required: Shelf.jars))
        #expect(try region(both) == "jar(content,id,shelfID),shelf(*)")
    }

    @Test(
        "of joined tables the first is narrowed; what is included counts, whether or not there are rows"
    )
    func associations() throws {
        let jars = "jar(content,id,shelfID)"
        #expect(try region(Jar.filter(key: 2).including(required: Jar.shelf)) == jars + "[2]," + all)
        #expect(try region(Shelf.filter(key: 1).including(all: Shelf.jars)) == jars + "," + all + "[1]")
    }

    @Test("a table that does not exist is an error, and a view is what it reads")
    func missing() throws {
        try DatabaseQueue.pantry().inDatabase { db in
            try db.execute(sql: "CREATE VIEW tall AS SELECT label FROM shelf WHERE height > 1")
            #expect(
                databaseError { try Table("none").databaseRegion(db) }?.message == "no such table: none")
            #expect(try Table("tall").databaseRegion(db).description == "shelf(height,label),tall(label)")
        }
    }

    // MARK: Recording

    @Test("a recording has what is read, and what is registered")
    func recording() throws {
        try DatabaseQueue.pantry().inDatabase { db in
            var region = DatabaseRegion()
            try db.recordingRegion(&region) {
                _ = try Int.fetchOne(db, sql: "SELECT COUNT(height) FROM shelf")
                try db.registerAccess(to: Table("jar"))
            }
            #expect(region.description == "jar(*),shelf(height)")
            try db.registerAccess(to: .fullDatabase)
            region = DatabaseRegion()
            db.recordingRegion(&region) {}
            #expect(region.isEmpty)
        }
    }

    @Test("requests are recorded with the rows that they read, and what they include")
    func recordedRequests() throws {
        try DatabaseQueue.pantry().inDatabase { db in
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1), (2)")
            func recorded(_ body: () throws -> Void) rethrows -> String {
                var region = DatabaseRegion()
                try db.recordingRegion(&region, body)
                return region.description
            }
            let request = Shelf.filter(key: 1).asRequest(of: Row.self)
            #expect(try recorded { _ = try request.fetchOne(db) } == all + "[1]")
            // The same statement with another value.
            #expect(
                try recorded { _ = try Shelf.filter(key: 2).asRequest(of: Row.self).fetchOne(db) } == all
                    + "[2]")
            #expect(try recorded { _ = try Shelf.filter(key: 7).fetchCount(db) }.hasSuffix("[7]"))
            let prefetching = Shelf.filter(key: 9).including(all: Shelf.jars).asRequest(of: Row.self)
            #expect(
                try recorded { _ = try prefetching.fetchAll(db) } == "jar(content,id,shelfID)," + all
                    + "[9]")
        }
    }
}
