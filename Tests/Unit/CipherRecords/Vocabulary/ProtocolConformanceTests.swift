import CipherDatabase
import CipherRecords
import Testing

// Code that was written for GRDB has types of its own for these protocols: what such a type must have may not grow.

@Suite("Types of a program conform to the protocols, also as classes that have subclasses")
struct ProtocolConformanceTests {
    /// A value that is an object.
    private class Label: DatabaseValueConvertible, StatementColumnConvertible {
        let text: String
        let isDirect: Bool

        required init(_ text: String) { (self.text, isDirect) = (text, false) }

        required init?(sqliteStatement: SQLiteStatement, index: Int32) {
            guard let text = String(sqliteStatement: sqliteStatement, index: index) else { return nil }
            (self.text, isDirect) = (text, true)
        }

        var databaseValue: DatabaseValue { text.databaseValue }
        class func fromDatabaseValue(_ dbValue: DatabaseValue) -> Self? {
            String.fromDatabaseValue(dbValue).map { Self($0) }
        }
    }

    private class ShortLabel: Label {}

    @Test("values that are objects")
    func values() throws {
        try DatabaseQueue().read { db in
            let found = try ShortLabel.fetchOne(db, sql: "SELECT ?", arguments: [Label("a")])
            #expect(found?.text == "a" && found?.isDirect == true)
            #expect(ShortLabel.fromDatabaseValue("b")?.isDirect == false)
            let row = try Row.fetchOne(db, sql: "SELECT 'c' AS label, NULL AS none")
            let (label, none): (ShortLabel?, Label?) = (row?["label"], row?["none"])
            #expect(label?.text == "c" && none == nil)
        }
    }

    /// A record that is an object, and one that inherits from it.
    private class Animal: PersistableRecord, FetchableRecord {
        class var databaseTableName: String { "animal" }
        var id: Int64?
        var name: String

        init(name: String) { self.name = name }

        required init(row: Row) throws {
            id = row["id"]
            name = row["name"]
        }

        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = name
        }

        func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private final class Dog: Animal {
        override func encode(to container: inout PersistenceContainer) {
            super.encode(to: &container)
            container["name"] = name + "!"
        }
    }

    @Test("records that are objects")
    func records() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE animal (id INTEGER PRIMARY KEY, name TEXT)")
            let animals = [Animal(name: "cat"), Dog(name: "dog")]
            for animal in animals { try animal.insert(db) }
            #expect(animals.map(\.id) == [1, 2])
            try #expect(Dog.order(Column("id")).fetchAll(db).map(\.name) == ["cat", "dog!"])
            try #expect(Dog.find(db, key: 2).name == "dog!" && animals[0].delete(db) && Animal.fetchCount(db) == 1)
        }
    }

    private class Numbers: Cursor {
        var last = 0
        func next() throws -> Int? {
            last += 1
            return last > 3 ? nil : last
        }
    }

    private struct Longest: DatabaseAggregate {
        var text = ""
        mutating func step(_ dbValues: [DatabaseValue]) throws {
            if let text = String.fromDatabaseValue(dbValues[0]), text.count > self.text.count { self.text = text }
        }
        func finalize() throws -> (any DatabaseValueConvertible)? { text }
    }

    private class Shortest: DatabaseAggregate {
        var text: String?
        required init() {}
        func step(_ dbValues: [DatabaseValue]) throws {
            let text = String.fromDatabaseValue(dbValues[0]) ?? ""
            if text.count < self.text?.count ?? .max { self.text = text }
        }
        func finalize() throws -> (any DatabaseValueConvertible)? { text }
    }

    private struct Words: FetchRequest {
        typealias RowDecoder = String
        let words: [String]
        func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
            let statement = try db.makeStatement(sql: words.map { _ in "SELECT ?" }.joined(separator: " UNION ALL "))
            try statement.setArguments(StatementArguments(words))
            return PreparedRequest(statement: statement)
        }
    }

    @Test("cursors, aggregates and requests")
    func others() throws {
        #expect(try Array(Numbers().map { $0 * 2 }) == [2, 4, 6])
        try DatabaseQueue().write { db in
            db.add(function: DatabaseFunction("longest", argumentCount: 1, aggregate: Longest.self))
            db.add(function: DatabaseFunction("shortest", argumentCount: 1, aggregate: Shortest.self))
            let sql = "SELECT longest(value), shortest(value) FROM json_each(?)"
            let row = try Row.fetchOne(db, sql: sql, arguments: [#"["to", "the", "lighthouse"]"#])
            #expect(row.map { Array($0.databaseValues) } == ["lighthouse", "to"])
            let request = Words(words: ["a", "b"])
            try #expect(request.fetchAll(db) == ["a", "b"] && request.fetchCount(db) == 2)
            try #expect(AnyFetchRequest(request).fetchSet(db) == ["a", "b"])
        }
    }

    /// A module of SQLite that a program describes: the tokens of a full-text table.
    private class TokenTable: VirtualTableModule {
        final class Definition { var table = "" }
        let moduleName = "fts5vocab"
        func makeTableDefinition(configuration: VirtualTableConfiguration) -> Definition { Definition() }
        func moduleArguments(for definition: Definition, in db: Database) throws -> [String] {
            [definition.table, "row"]
        }
        func database(_ db: Database, didCreate tableName: String, using definition: Definition) throws {}
    }

    @Test("modules of virtual tables")
    func modules() throws {
        try DatabaseQueue().write { db in
            try db.create(virtualTable: "page", using: FTS5()) { $0.column("text") }
            try db.create(virtualTable: "token", using: TokenTable()) { $0.table = "page" }
            try db.execute(sql: "INSERT INTO page VALUES ('one two one')")
            let tokens = try Table("token").select(Column("term"), as: String.self).order(Column("term")).fetchAll(db)
            #expect(tokens == ["one", "two"])
        }
    }
}
