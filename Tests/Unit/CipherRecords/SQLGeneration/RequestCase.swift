import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

/// Requests with the SQL that they become, for a person to read. Values stand in the text in the places of their
/// parameters; that none of them is text in truth, the helper checks.
final class RequestTable {
    struct Case {
        let request: StatementRequest
        let expected: String
        let location: SourceLocation
    }

    private(set) var cases: [Case] = []
    private let tables: [SchemaFacts.Table]
    private let sql: String

    /// Requests for the tables of a schema, which `sql` creates.
    init(_ tables: [SchemaFacts.Table] = Schema.tables, sql: String = Schema.sql) {
        self.tables = tables
        self.sql = sql
    }

    /// A request that is fetched.
    func callAsFunction<T>(
        _ request: QueryInterfaceRequest<T>, _ sql: String, at location: SourceLocation = #_sourceLocation
    ) {
        cases.append(
            Case(request: .select(request.relation, singleResult: false), expected: sql, location: location))
    }

    /// A request of which the first row is fetched.
    func one<T>(_ request: QueryInterfaceRequest<T>, _ sql: String, at location: SourceLocation = #_sourceLocation) {
        cases.append(Case(request: .select(request.relation, singleResult: true), expected: sql, location: location))
    }

    /// A request whose rows are counted.
    func count<T>(_ request: QueryInterfaceRequest<T>, _ sql: String, at location: SourceLocation = #_sourceLocation) {
        cases.append(Case(request: .count(request.relation), expected: sql, location: location))
    }

    /// A request that is asked whether it is empty.
    func exists<T>(_ request: QueryInterfaceRequest<T>, _ sql: String, at location: SourceLocation = #_sourceLocation) {
        cases.append(Case(request: .exists(request.relation), expected: sql, location: location))
    }

    /// A request whose rows are deleted.
    func delete<T>(
        _ request: QueryInterfaceRequest<T>, returning: [any SQLSelectable] = [], _ sql: String,
        at location: SourceLocation = #_sourceLocation
    ) {
        let returning = returning.map { $0.sqlSelection.content }
        cases.append(
            Case(request: .delete(request.relation, returning: returning), expected: sql, location: location))
    }

    /// A request whose rows are changed.
    func update<T>(
        _ request: QueryInterfaceRequest<T>, _ assignments: [ColumnAssignment],
        onConflict policy: Database.ConflictResolution? = nil, returning: [any SQLSelectable] = [], _ sql: String,
        at location: SourceLocation = #_sourceLocation
    ) {
        let returning = returning.map { $0.sqlSelection.content }
        let assignments = assignments.compactMap(\.assignment)
        cases.append(
            Case(
                request: .update(request.relation, assignments, policy, returning: returning), expected: sql,
                location: location))
    }

    /// A condition: `SELECT * FROM "player" WHERE` stands before it.
    func filter(
        _ predicate: some SQLSpecificExpressible, _ sql: String, at location: SourceLocation = #_sourceLocation
    ) {
        self(Player.filter(predicate), #"SELECT * FROM "player" WHERE \#(sql)"#, at: location)
    }

    /// The selection: `SELECT ... FROM "player"` stands around it.
    func select(_ selection: any SQLSelectable, _ sql: String, at location: SourceLocation = #_sourceLocation) {
        self(Player.select(selection), #"SELECT \#(sql) FROM "player""#, at: location)
    }

    // MARK: Checking

    /// Checks each text, without a database, and that a connection finds the SQL of each request again for other
    /// values; then that SQLite takes it.
    func check() throws {
        let facts = SchemaFacts(tables: tables)
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: sql) }
        for item in cases {
            let request = try queue.read { try item.request.rewritten(Rewriting(database: $0)) }
            let generated = try SQLGenerator.generate(request, facts: facts)
            #expect(Self.expanded(generated.text, generated.values) == item.expected, sourceLocation: item.location)
            #expect(
                !generated.text.contains("'") && generated.text.count(where: { $0 == "?" }) == generated.values.count,
                "a value is a part of the text", sourceLocation: item.location)
            try queue.read { db in
                let first = try db.prepare(item.request).statement
                let changed = try request.rewritten(Rewriting { _ in 77.databaseValue })
                let second = try db.prepare(changed).statement
                #expect(first.sql == generated.text && second.sql == generated.text, sourceLocation: item.location)
                #expect(first.arguments == StatementArguments(plain: generated.values), sourceLocation: item.location)
            }
        }
    }

    /// The text with its values in the places of the parameters.
    private static func expanded(_ sql: String, _ values: [DatabaseValue]) -> String {
        var parts = sql.split(separator: "?", omittingEmptySubsequences: false)[...]
        var text = parts.popFirst().map(String.init) ?? ""
        for (value, part) in zip(values, parts) { text += value.description + part }
        return text
    }
}

/// A part of the table: requests of one kind.
struct RequestSection: CustomTestStringConvertible, Sendable {
    let title: String
    private let write: @Sendable (RequestTable) -> Void

    init(_ title: String, _ write: @escaping @Sendable (RequestTable) -> Void) {
        self.title = title
        self.write = write
    }

    var testDescription: String { title }

    var table: RequestTable {
        let table = RequestTable()
        write(table)
        return table
    }

    func check() throws { try table.check() }
}

@Suite("The table of requests and their SQL")
struct RequestTableTests {
    @Test("it has 300 cases or more, no two of which are the same")
    func count() throws {
        let sections =
            ExpressionTests.sections + RequestTests.sections + JSONTests.sections + SelectionTests.sections
        let cases = sections.flatMap(\.table.cases)
        print("requests with their SQL: \(cases.count)")
        #expect(cases.count >= 300)
        let places = Set(cases.map { "\($0.location.fileID):\($0.location.line)" })
        #expect(places.count == cases.count)
    }

    @Test("a wrong text is found")
    func wrongText() {
        let table = RequestTable()
        table(Player.all(), "SELECT * FROM player")
        withKnownIssue { try table.check() }
    }
}

/// The tables that the requests are about.
enum Schema {
    static let tables = [
        SchemaFacts.Table(
            name: "player", columns: ["id", "name", "email", "score", "teamId"], uniqueKeys: [["email"]]),
        SchemaFacts.Table(name: "team", columns: ["id", "name"]),
        SchemaFacts.Table(
            name: "citizenship", columns: ["citizenId", "countryCode", "isNative"], key: ["citizenId", "countryCode"],
            isRowID: false, hasRowID: false),
        SchemaFacts.Table(name: "country", columns: ["code", "name"], key: ["code"], isRowID: false),
        SchemaFacts.Table(name: "log", columns: ["message"], key: ["rowid"], isRowID: false),
        SchemaFacts.Table(name: "order", columns: ["select", "we\"ird"], key: ["select"]),
        SchemaFacts.Table(name: "document", columns: ["title"], key: ["rowid"], isRowID: false),
        SchemaFacts.Table(
            name: "rate", columns: ["from", "to", "amount"], key: ["from", "to"], isRowID: false, hasRowID: false),
        SchemaFacts.Table(name: "device", columns: ["id", "label", "settings"]),
        SchemaFacts.Table(name: "item", columns: ["id", "a", "b", "c"]),
    ]

    static let sql = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, score INTEGER, teamId INTEGER REFERENCES team(id));
        CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE citizenship (
            citizenId INTEGER, countryCode TEXT, isNative BOOLEAN, PRIMARY KEY (citizenId, countryCode)) WITHOUT ROWID;
        CREATE TABLE log (message TEXT);
        CREATE TABLE "order" ("select" INTEGER PRIMARY KEY, "we""ird" TEXT);
        CREATE VIRTUAL TABLE document USING fts5(title);
        CREATE TABLE rate ("from" TEXT, "to" TEXT, amount REAL, PRIMARY KEY ("from", "to")) WITHOUT ROWID;
        CREATE TABLE device (id INTEGER PRIMARY KEY, label TEXT, settings TEXT);
        CREATE TABLE item (id INTEGER PRIMARY KEY, a, b, c);
        """

    static func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: sql) }
        return queue
    }
}

struct Player: TableRecord {
    enum Columns {
        static let id = Column("id")
        static let name = Column("name")
        static let email = Column("email")
        static let score = Column("score")
        static let teamId = Column("teamId")
    }
}

struct Team: TableRecord {
    enum Columns: String, ColumnExpression {
        case id, name
    }
}

struct Citizenship: TableRecord {}
struct Country: TableRecord {}
struct Log: TableRecord {}
struct Document: TableRecord {}

struct Rate: TableRecord {}

struct Device: TableRecord {
    enum Columns {
        static let label = Column("label")
        static let settings = JSONColumn("settings")
    }
}

struct Order: TableRecord {
    enum Columns {
        static let select = Column("select")
        static let weird = Column("we\"ird")
    }
}

/// Selects some columns wherever it is asked for.
struct PartialPlayer: TableRecord {
    static let databaseTableName = "player"
    static var databaseSelection: [any SQLSelectable] { [Column("id"), Column("name")] }
}
