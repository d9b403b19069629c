import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

/// One test for each kind of bad input: an error of a known type that names what to do, or the right rows.
@Suite("Bad input is an error that names what to do, or has the right rows")
struct RecordBadInputTests {
    private struct Guest: Codable, Equatable, Identifiable, MutablePersistableRecord, FetchableRecord {
        static let bookings = hasMany(Booking.self)
        var id: Int64?
        var name: String
        var email: String?
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private struct Booking: Codable, Equatable, PersistableRecord, FetchableRecord {
        static let guest = belongsTo(Guest.self)
        static let payer = belongsTo(Guest.self, key: "payer", using: ForeignKey(["payerId"]))
        var id: Int64
        var guestId: Int64?
        var nights: Int
        var arrival: Date?
    }

    private static let secret = "swordfish"

    private static func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE guest (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE);
                    CREATE TABLE booking (
                        id INTEGER PRIMARY KEY, guestId INTEGER REFERENCES guest(id), nights INTEGER, arrival DATE);
                    CREATE TABLE room (house TEXT, number INTEGER, PRIMARY KEY (house, number));
                    """)
        }
        return queue
    }

    private func write(_ body: (Database) throws -> Void) throws { try Self.queue().write(body) }

    private func message(_ code: ResultCode = .SQLITE_MISUSE, _ body: () throws -> Void) throws -> String {
        let error = try #require(#expect(throws: DatabaseError.self) { try body() })
        #expect(error.resultCode == code && !"\(error)".contains(Self.secret))
        return error.message ?? ""
    }

    private func decodingError(_ body: () throws -> Void) throws -> RowDecodingError {
        let error = try #require(#expect(throws: RowDecodingError.self) { try body() })
        #expect(!"\(error)".contains(Self.secret))
        return error
    }

    // MARK: Rows that do not fit

    @Test("a missing column")
    func missingColumn() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO guest (name) VALUES (?)", arguments: [Self.secret])
            let error = try decodingError { _ = try Guest.fetchAll(db, sql: "SELECT id, email FROM guest") }
            #expect(error.columnName == "name" && error.columnIndex == nil && error.storageClass == nil)
            #expect("\(error)".contains("which the row does not have"))
        }
    }

    @Test("NULL for a property that is not optional")
    func null() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO guest (email) VALUES (?)", arguments: [Self.secret])
            let error = try decodingError { _ = try Guest.fetchAll(db) }
            #expect(error.columnName == "name" && error.columnIndex == 1 && error.storageClass == .null)
        }
    }

    @Test("a text where a number is wanted")
    func text() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO booking (nights) VALUES (?)", arguments: [Self.secret])
            let error = try decodingError { _ = try Booking.fetchAll(db) }
            #expect(error.columnName == "nights" && error.storageClass == .text && error.declaredType == "INTEGER")
        }
    }

    private struct ShortStay: Decodable, FetchableRecord, TableRecord {
        static let databaseTableName = "booking"
        var nights: Int8
    }

    @Test("an integer that does not fit")
    func tooLarge() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO booking (nights) VALUES (271828)")
            let error = try decodingError { _ = try ShortStay.fetchOne(db) }
            #expect(error.columnName == "nights" && error.storageClass == .integer && error.typeName == "Int8")
            #expect(!"\(error)".contains("271828"))
        }
    }

    @Test("a date that cannot be read")
    func date() throws {
        try write { db in
            try db.execute(sql: "INSERT INTO booking (nights, arrival) VALUES (1, ?)", arguments: [Self.secret])
            let error = try decodingError { _ = try Booking.fetchAll(db) }
            #expect(error.columnName == "arrival" && error.storageClass == .text && error.typeName == "Date")
        }
    }

    // MARK: Tables and keys

    private struct Ghost: Codable, Identifiable, MutablePersistableRecord, FetchableRecord {
        var id: Int64
        var name: String
    }

    @Test("a table that does not exist")
    func missingTable() throws {
        try write { db in
            var ghost = Ghost(id: 1, name: Self.secret)
            let calls: [() throws -> Void] = [
                { try ghost.insert(db) }, { try ghost.update(db) }, { try ghost.save(db) }, { try ghost.upsert(db) },
                { _ = try ghost.delete(db) }, { _ = try ghost.exists(db) }, { _ = try Ghost.fetchAll(db) },
                { _ = try Ghost.fetchOne(db, key: 1) }, { _ = try Ghost.find(db, id: 1) },
                { _ = try Ghost.deleteAll(db) },
                { _ = try Ghost.filter(ids: [1, 2]).fetchCount(db) }, { throw ghost.recordNotFound(db) },
                { _ = try Ghost.updateAll(db, Column("name").set(to: "a")) },
            ]
            for call in calls { try #expect(message(.SQLITE_ERROR, call) == "no such table: ghost") }
        }
    }

    private struct Room: Codable, Equatable, PersistableRecord, FetchableRecord {
        var house: String?
        var number: Int?
        var isFree: Bool?

        func encode(to container: inout PersistenceContainer) {
            container["house"] = house
            container["number"] = number
        }
    }

    private struct Nameless: PersistableRecord {
        static let databaseTableName = "guest"
        func encode(to container: inout PersistenceContainer) {}
    }

    @Test("a record without its primary key")
    func missingKey() throws {
        try write { db in
            let guest = Guest(id: nil, name: Self.secret)
            let error = #expect(throws: RecordError.self) { try guest.update(db) }
            #expect(error == .recordNotFound(databaseTableName: "guest", key: ["id": .null]))
            #expect(error.map { "\($0)".contains(Self.secret) } == false)
            try #expect(!guest.delete(db) && !guest.exists(db) && Guest.fetchOne(db, key: nil as Int64?) == nil)
            // A part of a key is NULL: it is the key of no row, even where a row looks like it.
            try db.execute(sql: "INSERT INTO room VALUES (NULL, 7), (NULL, 7)")
            let half = Room(house: nil, number: 7)
            try #expect(!half.delete(db) && !half.exists(db))
            #expect(throws: RecordError.self) { try half.update(db) }
            try #expect(Room.fetchCount(db) == 2)
            // One value for a key of two columns, columns that are no key, and no columns at all.
            let composite = try message { _ = try Room.fetchOne(db, key: Self.secret) }
            #expect(composite.contains(#"filter(key: ["house": ..., "number": ...])"#))
            try #expect(message { _ = try Room.find(db, key: 1) } == composite)
            try #expect(message { throw Room.recordNotFound(db, key: 1) } == composite)
            try #expect(message { _ = try Room.filter(keys: [1, 2]).fetchAll(db) } == composite)
            try #expect(
                message { _ = try Guest.find(db, key: ["name": Self.secret]) }.contains("no unique key on name"))
            try #expect(message { _ = try Guest.fetchOne(db, key: [:]) } == "a key of table guest names no column")
            try #expect(message { try Nameless().insert(db) }.contains("encode(to:) has to set one"))
            try #expect(message { try Nameless().save(db) }.contains("encode(to:) has to set one"))
            try #expect(message { _ = try Nameless().delete(db) }.contains("encode(to:) has to set one"))
        }
    }

    @Test("an update of no row")
    func missingRow() throws {
        try write { db in
            let guest = Guest(id: 5, name: Self.secret)
            let expected = RecordError.recordNotFound(databaseTableName: "guest", key: ["id": 5.databaseValue])
            #expect(throws: expected) { try guest.update(db) }
            #expect(throws: expected) { try guest.update(db, columns: ["name"]) }
            #expect(throws: expected) { try guest.updateAndFetch(db) }
            #expect(throws: expected) { try guest.updateChanges(db, from: Guest(id: 5, name: "")) }
            #expect(throws: expected) { try Guest.find(db, id: 5) }
            #expect(
                "\(expected)"
                    == "no row of table guest with this key (id) was changed or found: it was deleted, never inserted, or "
                    + "ignored by a conflict policy")
        }
    }

    // MARK: Constraints and callbacks

    @Test("a unique violation")
    func uniqueViolation() throws {
        try write { db in
            _ = try Guest(id: nil, name: "a", email: Self.secret).inserted(db)
            var twin = Guest(id: 9, name: "b", email: Self.secret)
            try #expect(
                message(.SQLITE_CONSTRAINT) { try twin.insert(db) } == "UNIQUE constraint failed: guest.email")
            try #expect(message(.SQLITE_CONSTRAINT) { try twin.save(db) } == "UNIQUE constraint failed: guest.email")
            try #expect(Guest.fetchCount(db) == 1)
        }
    }

    @Test("a foreign key violation")
    func foreignKeyViolation() throws {
        try write { db in
            let booking = Booking(id: 1, guestId: 77, nights: 1)
            try #expect(
                message(.SQLITE_CONSTRAINT) { try booking.insert(db) } == "FOREIGN KEY constraint failed")
            try #expect(Booking.fetchCount(db) == 0)
        }
    }

    private struct Refusal: Error {}

    private struct Strict: Encodable, MutablePersistableRecord {
        static let databaseTableName = "guest"
        var id: Int64? = 1
        var name = "a"
        var refuses: String

        enum CodingKeys: CodingKey { case id, name }

        init(_ refuses: String) { self.refuses = refuses }

        func refuse(_ step: String) throws { if refuses == step { throw Refusal() } }
        mutating func willInsert(_ db: Database) throws { try refuse("willInsert") }
        func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
            _ = try insert()
            try refuse("aroundInsert")
        }
        func willUpdate(_ db: Database, columns: Set<String>) throws { try refuse("willUpdate") }
        func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws {
            if refuses != "skips" { _ = try save() }
            try refuse("aroundSave")
        }
        func aroundDelete(_ db: Database, delete: () throws -> Bool) throws {
            if refuses != "skips" { _ = try delete() }
            try refuse("aroundDelete")
        }
    }

    @Test("a callback that throws, or does not call its closure")
    func callbacks() throws {
        let queue = try Self.queue()
        for step in ["willInsert", "aroundInsert", "aroundSave"] {
            #expect(throws: Refusal.self) {
                try queue.write { db in
                    var record = Strict(step)
                    try record.insert(db)
                }
            }
        }
        try queue.write { db in
            try #expect(Strict.fetchCount(db) == 0)
            var record = Strict("")
            try record.insert(db)
        }
        for step in ["willUpdate", "aroundSave"] {
            #expect(throws: Refusal.self) { try queue.write { try Strict(step).update($0) } }
        }
        #expect(throws: Refusal.self) { try queue.write { _ = try Strict("aroundDelete").delete($0) } }
        try queue.write { db in
            try #expect(
                message { try Strict("skips").update(db) }.contains("aroundSave of Strict has to call its closure"))
            try #expect(message { _ = try Strict("skips").delete(db) }.contains("aroundDelete of Strict"))
            try #expect(Strict.fetchCount(db) == 1)
        }
    }

    // MARK: Databases and associations

    @Test("a record type used on another database, where its table looks otherwise")
    func otherDatabase() throws {
        let other = DatabaseQueue()
        try other.write { try $0.execute(sql: "CREATE TABLE guest (email TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID") }
        let queues = [try Self.queue(), other]
        for round in 1...3 {
            // The connections take turns: neither has anything of the other's.
            let results = try queues.map { queue in
                try queue.write { db in
                    var record = Named(email: "a", name: "n\(round)")
                    try record.upsert(db)
                    let sql = try #require(db.lastStatement { try record.update(db) })
                    return (sql, try Named.fetchAll(db).map(\.name), try Named.fetchOne(db, key: "a")?.name)
                }
            }
            #expect(results.map(\.1) == [["n\(round)"], ["n\(round)"]])
            #expect(results[1].0 == #"UPDATE "guest" SET "name"=? WHERE "email"=?"#)
            #expect(results[1].2 == "n\(round)" && results[0].2 == nil)
        }
        // Within one connection, a table takes the place of another of the same name.
        try queues[0].write { db in
            try db.execute(sql: "CREATE TEMP TABLE guest (name TEXT PRIMARY KEY, email TEXT, age INTEGER)")
            var record = Named(email: "b", name: "n")
            try record.insert(db)
            try #expect(db.lastStatement { try record.update(db) } == #"UPDATE "guest" SET "email"=? WHERE "name"=?"#)
            try db.execute(sql: "DROP TABLE temp.guest")
            try #expect(Named.fetchAll(db).map(\.name) == ["n3"])
            try db.execute(sql: "ALTER TABLE guest RENAME TO visitor")
            try #expect(message(.SQLITE_ERROR) { try record.insert(db) } == "no such table: guest")
        }
        // Databases that are attached one after another, under one name.
        try DatabaseQueue().inDatabase { db in
            for key in ["email", "name", "email"] {
                try db.execute(sql: "ATTACH ':memory:' AS other")
                try db.execute(sql: "CREATE TABLE other.guest (name TEXT, email TEXT, PRIMARY KEY (\(key)))")
                var record = Named(email: "a", name: "b")
                try record.insert(db)
                let other = key == "name" ? "email" : "name"
                let sql = try db.lastStatement { try record.update(db) }
                #expect(sql == #"UPDATE "guest" SET "\#(other)"=? WHERE "\#(key)"=?"#)
                try #expect(Named.fetchOne(db, key: key == "name" ? "b" : "a") != nil)
                try db.execute(sql: "DETACH other")
                try #expect(message(.SQLITE_ERROR) { try record.update(db) } == "no such table: guest")
            }
        }
    }

    private struct Named: Codable, MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "guest"
        var id: Int64?
        var email: String
        var name: String

        init(email: String, name: String) { (self.email, self.name) = (email, name) }
        init(row: Row) { (id, email, name) = (nil, row["email"], row["name"]) }
        // Both tables have these columns.
        func encode(to container: inout PersistenceContainer) {
            if let id { container["id"] = id }
            container["email"] = email
            container["name"] = name
        }
        mutating func didInsert(_ inserted: InsertionSuccess) {
            if inserted.rowIDColumn != nil { id = inserted.rowID }
        }
    }

    private struct Tree: Decodable, FetchableRecord, Equatable {
        struct Stay: Decodable, Equatable {
            struct Host: Decodable, Equatable {
                var guest: Guest
                var bookings: [Booking]
            }
            var booking: Booking
            var guest: Host?
        }
        var guest: Guest
        var bookings: [Stay]
    }

    @Test("a cyclic including: each table as often as it is asked for")
    func cycle() throws {
        try write { db in
            for id in 1...2 {
                _ = try Guest(id: Int64(id), name: "g\(id)").inserted(db)
                for number in 1...2 {
                    try Booking(id: Int64(id * 10 + number), guestId: Int64(id), nights: 1).insert(db)
                }
            }
            let request = Guest.including(
                all: Guest.bookings.including(optional: Booking.guest.including(all: Guest.bookings)))
            let trees = try Tree.fetchAll(db, request.orderByPrimaryKey())
            #expect(trees.map { $0.bookings.map(\.booking.id) } == [[11, 12], [21, 22]])
            #expect(trees.allSatisfy { tree in tree.bookings.allSatisfy { $0.guest?.guest == tree.guest } })
            #expect(
                trees.allSatisfy { tree in
                    tree.bookings.allSatisfy { $0.guest?.bookings == tree.bookings.map(\.booking) }
                })
            let joined = Booking.including(
                required: Booking.guest.including(
                    required: Guest.hasOne(Booking.self).including(optional: Booking.guest)))
            let rows = try Row.fetchAll(db, joined.orderByPrimaryKey())
            #expect(rows.count == 8)
            for row in rows {
                let guestId: Int64 = row["guestId"]
                let guest = try #require(row.scopes["guest"])
                let again = try #require(guest.scopes["booking"]?.scopes["guest"])
                #expect(guest["id"] == guestId && again["id"] == guestId)
            }
        }
    }

    private struct Trip: TableRecord {
        static let city = belongsTo(Table("city"))
        static let stranger = belongsTo(Table("guest"))
        static let start = belongsTo(Table("city"), key: "start", using: ForeignKey(["startId"]))
        static let end = belongsTo(Table("city"), key: "end", using: ForeignKey(["endId"]))
        static let empty = belongsTo(Table("city"), using: ForeignKey([String](), to: [String]()))
    }

    @Test("an association whose foreign key is ambiguous, or missing")
    func ambiguousForeignKey() throws {
        try write { db in
            try db.execute(
                sql: """
                    CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE trip (startId INTEGER REFERENCES city(id), endId INTEGER REFERENCES city(id));
                    INSERT INTO city VALUES (1, 'a'), (2, 'b');
                    INSERT INTO trip VALUES (1, 2);
                    """)
            let ambiguous = "table trip has 2 foreign keys to table city: say which one the association means"
            let cities = Table("city").hasMany(Table("trip"))
            try #expect(message { _ = try Row.fetchAll(db, Trip.including(required: Trip.city)) }.hasPrefix(ambiguous))
            try #expect(message { _ = try Row.fetchOne(db, Trip.joining(optional: Trip.city)) }.hasPrefix(ambiguous))
            try #expect(message { _ = try Row.fetchAll(db, Table("city").including(all: cities)) }.hasPrefix(ambiguous))
            try #expect(
                message { _ = try Row.fetchAll(db, Trip.including(optional: Trip.stranger)) }
                    .hasPrefix("no foreign key leads from table trip to table guest: declare one in the schema"))
            try #expect(
                message { _ = try Row.fetchAll(db, Trip.including(optional: Trip.empty)) }.hasSuffix("has no column"))
            let rows = try Row.fetchAll(db, Trip.including(required: Trip.start).including(required: Trip.end))
            #expect(rows.map { $0.scopes["start"]?["name"] } == ["a"])
            #expect(rows.map { $0.scopes["end"]?["name"] } == ["b"])
        }
    }

    // MARK: Names and long lists

    private struct Quoted: Codable, Equatable, MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "or\"der; DROP TABLE x --"
        var select: Int64?
        var group: String
        enum CodingKeys: String, CodingKey {
            case select
            case group = "gro\"up'?`]"
        }
        enum Columns {
            static let group = Column(CodingKeys.group)
        }
        mutating func didInsert(_ inserted: InsertionSuccess) { select = inserted.rowID }
    }

    @Test("records of a table whose names are reserved words and quotes are stored and found")
    func names() throws {
        try write { db in
            try db.create(table: Quoted.databaseTableName) { t in
                t.autoIncrementedPrimaryKey("select")
                t.column(Quoted.Columns.group.name, .text).unique()
            }
            var record = Quoted(select: nil, group: "'; --")
            try record.insert(db)
            record.group = "\"?"
            try record.update(db)
            try record.upsert(db)
            let stored = try record.upsertAndFetch(db, onConflict: [Quoted.Columns.group.name])
            #expect(stored == record)
            try #expect(Quoted.filter { $0.group == record.group }.order { $0.group.desc }.fetchAll(db) == [record])
            try #expect(Quoted.fetchOne(db, key: [Quoted.Columns.group.name: record.group]) == record)
            try #expect(Quoted.updateAll(db) { $0.group.set(to: "a") } == 1)
            try #expect(Quoted.filter(keys: [record.select, 9]).deleteAndFetchAll(db).map(\.group) == ["a"])
        }
    }

    @Test("an empty list of keys has no rows")
    func noKeys() throws {
        try write { db in
            _ = try Guest(id: nil, name: "a", email: "e").inserted(db)
            let none: [Int64] = []
            try #expect(Guest.filter(keys: none).fetchAll(db).isEmpty && Guest.fetchAll(db, keys: none).isEmpty)
            try #expect(Guest.filter(keys: none).fetchCount(db) == 0 && Guest.filter(ids: []).fetchOne(db) == nil)
            try #expect(Guest.filter(keys: []).isEmpty(db) && Guest.deleteAll(db, keys: []) == 0)
            try #expect(Guest.filter(none.contains(Column("id"))).fetchCount(db) == 0)
            try #expect(Guest.filter(!none.contains(Column("id"))).fetchCount(db) == 1)
            try #expect(Guest.filter(keys: none).deleteAll(db) == 0 && Guest.fetchCount(db) == 1)
            try #expect(Guest.filter(keys: none).updateAll(db, Column("name").set(to: "b")) == 0)
        }
    }

    @Test("100,000 keys in one filter, more than SQLite takes parameters")
    func manyKeys() throws {
        try write { db in
            for name in ["a", "b", "c"] { _ = try Guest(id: nil, name: name, email: name).inserted(db) }
            let keys = Array(Int64(2)...100_001)
            try #expect(Guest.filter(keys: keys).orderByPrimaryKey().fetchAll(db).map(\.id) == [2, 3])
            // The library takes 32,766 parameters.
            let emails: [[String: (any DatabaseValueConvertible)?]] =
                keys.prefix(33_000).map { ["email": "\($0)"] } + [["email": "c"]]
            try #expect(Guest.fetchAll(db, keys: emails).map(\.id) == [3])
            try db.execute(sql: "INSERT INTO room VALUES ('x', 5), ('y', 5), (NULL, 5)")
            let rooms: [[String: (any DatabaseValueConvertible)?]] =
                keys.prefix(17_000).map { ["house": "x", "number": $0] }
            try #expect(Room.filter(keys: rooms).fetchAll(db) == [Room(house: "x", number: 5)])
            let withNull = rooms.prefix(100) + [["house": nil, "number": 5], ["house": Data([1]), "number": 5]]
            try #expect(Room.filter(keys: Array(withNull)).fetchCount(db) == 2)
            try #expect(
                Room.deleteAll(db, keys: Array(rooms.prefix(100))) == 1 && Guest.deleteAll(db, ids: [2, 3]) == 2)
        }
    }

    @Test("an expression of as many operators as there are data is an error, and not the end of the stack")
    func deepExpressions() throws {
        try write { db in
            for depth in [240, 20_000] {
                var sum: SQLExpression = Column("id") + 1
                for number in 0..<depth { sum = sum + number }
                let request = Guest.filter(sum > 0)
                if depth < 1_000 {
                    try #expect(request.fetchCount(db) == 0)
                } else {
                    try #expect(
                        message { _ = try request.fetchCount(db) }.contains("250 operators in one another"))
                }
            }
        }
    }

    @Test("conditions that are joined one by one may be as many as SQLite takes values, and keep their order")
    func longChains() throws {
        // Story: SQLite takes a chain for as many expressions in one another, and refused the 1,001st.
        try write { db in
            for number in 1...3 { _ = try Guest(id: nil, name: "\(number)", email: "\(number)").inserted(db) }
            let id = Column("id")
            // SQLite's time for the last one grows with its square.
            for count in [250, 251, 1_001, Sample.isWhole ? 32_000 : 8_000] {
                let anyOf = (0..<count).map { id == $0 + 2 }.joined(operator: .or)
                try #expect(Guest.filter(anyOf).order(id).fetchAll(db).map(\.id) == [2, 3])
                if count > 1_001 { continue }
                try #expect(Guest.filter(!anyOf).fetchCount(db) == 1)
                let letters = (0..<count).map { SQL("CHAR(\(97 + $0 % 26))") }.joined(operator: .concat)
                let expected = (0..<count).map { String(UnicodeScalar(UInt8(97 + $0 % 26))) }.joined()
                try #expect(Guest.limit(1).select(letters, as: String.self).fetchOne(db) == expected)
            }
            var request = Guest.all()
            for number in 0..<1_200 { request = request.filter(id != number + 2) }
            try #expect(request.fetchAll(db).map(\.id) == [1])
            let pairs = (0..<1_500).map { id == $0 && Column("name") == "\($0)" }
            try #expect(Guest.filter(pairs.joined(operator: .or)).fetchCount(db) == 3)
            let text = try lastSQL(Guest.filter((0..<3).map { id == $0 }.joined(operator: .or)), db)
            #expect(text.hasSuffix(#"("id" = ?) OR ("id" = ?) OR ("id" = ?)"#))
        }
    }

    private func lastSQL<T>(_ request: QueryInterfaceRequest<T>, _ db: Database) throws -> String {
        try request.makePreparedRequest(db).statement.sql
    }

    @Test("a NUL in one of many keys does not end the key")
    func nulInKeys() throws {
        try write { db in
            _ = try Guest(id: nil, name: "a", email: "a").inserted(db)
            let texts = (0..<2_000).map { "x\($0)" } + ["a\0b"]
            try #expect(Guest.filter(texts.contains(Column("email"))).fetchCount(db) == 0)
            try #expect(Guest.filter((texts + ["a"]).contains(Column("email"))).fetchCount(db) == 1)
        }
    }
}

extension Database {
    /// The last statement of a block, without values.
    fileprivate func lastStatement(_ body: () throws -> Void) rethrows -> String? {
        let log = Log()
        trace { log.lines.append("\($0)") }
        defer { trace(options: [], nil) }
        try body()
        return log.lines.last
    }

    private final class Log { var lines: [String] = [] }
}
