import CipherDatabase
import CipherRecords
import Foundation

/// Calls by the spelling that Docs/Migrating-from-GRDB.md lists, each with code that uses the public interface alone.
struct Calls: Sendable {
    /// Uses a call. The result is whether it did what it is for; the changes are rolled back.
    typealias Use = @Sendable (Database) throws -> Bool

    private(set) var uses: [String: Use] = [:]
    /// Keys that stand more than once in the code.
    private(set) var repeated: [String] = []

    mutating func callAsFunction(_ key: String, _ use: @escaping Use) {
        if uses.updateValue(use, forKey: key) != nil { repeated.append(key) }
    }

    /// The calls of all files of this folder.
    static let all: Calls = {
        var call = Calls()
        names(&call)
        records(&call)
        codable(&call)
        requests(&call)
        expressions(&call)
        schema(&call)
        associations(&call)
        fullText(&call)
        observation(&call)
        return call
    }()
}

/// Ships and harbours: the tables and records of these calls.
enum Fleet {
    static let sql = """
        CREATE TABLE harbour (code TEXT PRIMARY KEY, name TEXT NOT NULL, founded INTEGER);
        CREATE TABLE ship (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, tons INTEGER NOT NULL CHECK (tons > 0),
            nickname TEXT, harbourCode TEXT REFERENCES harbour);
        CREATE TABLE captain (id INTEGER PRIMARY KEY, shipId INTEGER UNIQUE REFERENCES ship, name TEXT NOT NULL);
        CREATE TABLE voyage (
            id INTEGER PRIMARY KEY, shipId INTEGER NOT NULL REFERENCES ship ON DELETE CASCADE, miles DOUBLE NOT NULL);
        CREATE TABLE berth (harbourCode TEXT, number INTEGER, shipId INTEGER, PRIMARY KEY (harbourCode, number));
        CREATE TABLE report (id INTEGER PRIMARY KEY, title TEXT, body TEXT);
        CREATE VIRTUAL TABLE report_ft USING fts5(title, body, content='report', content_rowid='id');
        CREATE VIEW bigShip AS SELECT * FROM ship WHERE tons > 150;
        """
    static let rows = """
        INSERT INTO harbour VALUES ('B', 'Bergen', 1070), ('C', 'Cork', 1185), ('D', 'Dover', NULL);
        INSERT INTO ship VALUES (1, 'Ahti', 100, NULL, 'B'), (2, 'Brig', 200, 'Bee', 'B'), (3, 'Cog', 300, NULL, 'C'),
            (4, 'dory', 5, NULL, NULL);
        INSERT INTO captain VALUES (1, 1, 'Ann'), (2, 3, 'Cyd');
        INSERT INTO voyage VALUES (1, 1, 500), (2, 1, 700.5), (3, 3, 20);
        INSERT INTO berth VALUES ('B', 1, 1), ('B', 2, 2), ('C', 1, 3);
        INSERT INTO report VALUES (1, 'Storm', 'high waves and a broken mast'), (2, 'Calm', 'no wind, no waves at all');
        INSERT INTO report_ft(report_ft) VALUES ('rebuild');
        """

    struct Harbour: Codable, Hashable, FetchableRecord, PersistableRecord {
        enum Columns: String, ColumnExpression { case code, name, founded }
        static let ships = hasMany(Ship.self)
        static let voyages = hasMany(Voyage.self, through: ships, using: Ship.voyages)
        var code: String
        var name: String
        var founded: Int?
    }

    struct Ship: Codable, Hashable, Identifiable, FetchableRecord, MutablePersistableRecord {
        enum Columns {
            static let id = Column(CodingKeys.id)
            static let name = Column(CodingKeys.name)
            static let tons = Column(CodingKeys.tons)
            static let nickname = Column(CodingKeys.nickname)
            static let harbourCode = Column(CodingKeys.harbourCode)
        }
        static let harbour = belongsTo(Harbour.self)
        static let captain = hasOne(Captain.self)
        static let voyages = hasMany(Voyage.self)
        var id: Int64?
        var name: String
        var tons: Int
        var nickname: String?
        var harbourCode: String?
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    struct Captain: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let ship = belongsTo(Ship.self)
        static let harbour = hasOne(Harbour.self, through: ship, using: Ship.harbour)
        var id: Int64
        var shipId: Int64?
        var name: String
    }

    struct Voyage: Codable, Hashable, Identifiable, FetchableRecord, PersistableRecord {
        enum Columns {
            static let miles = Column("miles")
        }
        static let ship = belongsTo(Ship.self)
        var id: Int64
        var shipId: Int64
        var miles: Double
    }

    struct Berth: Codable, Hashable, FetchableRecord, PersistableRecord {
        var harbourCode: String
        var number: Int
        var shipId: Int64?
    }

    struct Report: Codable, FetchableRecord, PersistableRecord {
        static let index = hasOne(Table("report_ft"), key: "index", using: ForeignKey(["rowid"], to: ["id"]))
        var id: Int64
        var title: String
        var body: String
    }

    /// A ship with its name and key alone.
    struct ShipName: Codable, Hashable, FetchableRecord, TableRecord {
        static let databaseTableName = "ship"
        static var databaseSelection: [any SQLSelectable] { [Column("id"), Column("name")] }
        var id: Int64
        var name: String
    }

    static func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: sql + rows) }
        return queue
    }

    static func ship(_ name: String = "Elk", id: Int64? = nil) -> Ship { Ship(id: id, name: name, tons: 7) }

    /// The SQL of a request that is fetched.
    static func sql(_ db: Database, _ request: some FetchRequest) throws -> String {
        try request.makePreparedRequest(db, forSingleResult: false).statement.sql
    }

    /// The SQL of a definition.
    static func definition(_ db: Database, of name: String) throws -> String {
        try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = ?", arguments: [name]) ?? ""
    }

    /// Whether a block throws a `DatabaseError`.
    static func refuses(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch {
            return error is DatabaseError
        }
    }
}
