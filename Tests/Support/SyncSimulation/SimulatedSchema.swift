import CipherDatabase
import ChangesetSync
import Synchronization
import TestKit

/// A statement, and the first version of the tables that has what it names.
package struct Statement: Sendable {
    let sql: String
    let version: Int
}

/// Some of the tables of the simulation, which refer to each other, and statements that change a few rows in many ways.
struct SimulatedSchema: Sendable {
    /// The tables that refer to `p`.
    let children: [String]
    /// Whether a deletion of the first child wins over an update.
    let deletionsWin: Bool
    /// The stores of all schedules, and a remote.
    let world: Result<World, any Error>

    static let lastVersion = 2
    /// The tables of each version come with statements of the program.
    private static let migrations = [
        "ALTER TABLE p ADD COLUMN extra TEXT DEFAULT 'd'",
        "CREATE TABLE late (id INTEGER PRIMARY KEY, x, UNIQUE (x))",
    ]

    static let all = [
        (["c1", "c2", "c3", "c4"], false), (["c1"], true), (["c2"], false), (["c3"], false), (["c4"], false),
        (["c1", "c3"], false), (["c2", "c4"], false), (["c2", "c3"], true),
    ].map { SimulatedSchema($0.0, deletionsWin: $0.1) }

    private init(_ children: [String], deletionsWin: Bool) {
        (self.children, self.deletionsWin) = (children, deletionsWin)
        let rules: [(String, Set<String>, Bool)] =
            [("counter", ["v"], false)] + (deletionsWin ? [(children[0], [], true)] : [])
        let sql = Self.creation(children)
        world = Result { try World(sql, rules: rules) }
    }

    private static func creation(_ children: [String]) -> String {
        let actions = ["c1": "CASCADE", "c2": "SET NULL", "c3": "RESTRICT", "c4": "SET DEFAULT"]
        let tables = children.map { name in
            """
            CREATE TABLE \(name) (
                id INTEGER PRIMARY KEY NOT NULL, p INT DEFAULT 2 REFERENCES p(id) ON DELETE \(actions[name] ?? ""), w);
            """
        }
        return """
            CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, v INT CHECK (v < 9));
            \(tables.joined())
            CREATE TABLE word (name TEXT COLLATE NOCASE, part INT, text TEXT NOT NULL DEFAULT '-',
                PRIMARY KEY (name, part)) WITHOUT ROWID;
            CREATE TABLE journal (id INTEGER PRIMARY KEY NOT NULL, place INT);
            CREATE TABLE register (id INTEGER PRIMARY KEY NOT NULL, step INT);
            CREATE TABLE counter (id INTEGER PRIMARY KEY NOT NULL, v INT);
            """
    }

    func migrate(_ db: Database, from version: Int, to next: Int) throws {
        for number in version..<next { try db.execute(sql: Self.migrations[number]) }
    }

    /// Selects all rows of the tables, with their types.
    func rows(version: Int) -> String {
        let extra = version > 0 ? "quote(extra)" : "''"
        return "SELECT 'p', quote(id), quote(name), quote(v), \(extra) FROM p"
            + children.map { " UNION ALL SELECT '\($0)', quote(id), quote(p), quote(w), '' FROM \($0)" }.joined()
            + (version > 1 ? " UNION ALL SELECT 'late', quote(id), quote(x), '', '' FROM late" : "")
            + " UNION ALL SELECT 'word', quote(name), quote(part), quote(text), '' FROM word"
            + " UNION ALL SELECT 'journal', quote(id), quote(place), '', '' FROM journal"
            + " UNION ALL SELECT 'register', quote(id), quote(step), '', '' FROM register"
            + " UNION ALL SELECT 'counter', quote(id), quote(v), '', '' FROM counter ORDER BY 1, 2, 3, 4, 5"
    }

    // MARK: Statements

    func statement(_ dice: inout Dice) -> Statement {
        let tables = ["p", "p", "word", "late"] + children
        let (table, id) = (tables[dice(0...tables.count - 1)], dice(1...5))
        switch table {
        case "p": return parent(&dice, id)
        case "word": return Statement(sql: word(&dice), version: 0)
        case "late": return Statement(sql: late(&dice, id), version: 2)
        default: return Statement(sql: child(&dice, table, id), version: 0)
        }
    }

    private func parent(_ dice: inout Dice, _ id: Int) -> Statement {
        let name = ["'a'", "'b'", "'c'", "'d'", "NULL"][dice(0...4)]
        switch dice(0...7) {
        case 0, 1: return Statement(sql: "DELETE FROM p WHERE id = \(id)", version: 0)
        case 2: return Statement(sql: "UPDATE p SET name = \(name) WHERE id = \(id)", version: 0)
        case 3: return Statement(sql: "UPDATE p SET v = \(dice(1...8)) WHERE id = \(id)", version: 0)
        case 4: return Statement(sql: "UPDATE OR IGNORE p SET id = \(dice(1...5)) WHERE id = \(id)", version: 0)
        case 5: return Statement(sql: "UPDATE p SET extra = 'e\(dice(1...9))' WHERE id = \(id)", version: 1)
        default:
            return Statement(sql: "INSERT INTO p (id, name, v) VALUES (\(id), \(name), \(dice(1...8)))", version: 0)
        }
    }

    private func child(_ dice: inout Dice, _ table: String, _ id: Int) -> String {
        let parent = dice(0...5) == 0 ? "NULL" : String(dice(1...5))
        switch dice(0...6) {
        case 0, 1: return "DELETE FROM \(table) WHERE id = \(id)"
        case 2: return "UPDATE \(table) SET p = \(parent) WHERE id = \(id)"
        case 3: return "UPDATE \(table) SET w = \(dice(1...9)) WHERE id = \(id)"
        case 4: return "INSERT OR REPLACE INTO \(table) VALUES (\(id), \(parent), \(dice(1...9)))"
        default: return "INSERT INTO \(table) VALUES (\(id), \(parent), \(dice(1...9)))"
        }
    }

    private func word(_ dice: inout Dice) -> String {
        let (name, part) = (["'x'", "'X'", "'y'", "'Y'"][dice(0...3)], dice(1...2))
        switch dice(0...4) {
        case 0: return "DELETE FROM word WHERE name = \(name) AND part = \(part)"
        case 1: return "UPDATE word SET text = 't\(dice(1...9))' WHERE name = \(name)"
        case 2: return "INSERT OR REPLACE INTO word VALUES (\(name), \(part), 'r\(dice(1...9))')"
        default: return "INSERT INTO word (name, part) VALUES (\(name), \(part))"
        }
    }

    private func late(_ dice: inout Dice, _ id: Int) -> String {
        let value = ["1", "2", "2.5", "'t'", "NULL"][dice(0...4)]
        switch dice(0...3) {
        case 0: return "DELETE FROM late WHERE id = \(id)"
        case 1: return "UPDATE OR REPLACE late SET x = \(value) WHERE id = \(id)"
        default: return "INSERT OR IGNORE INTO late VALUES (\(id), \(value))"
        }
    }
}

/// The stores of one repository before the first step: each is a member and knows all members.
struct World: Sendable {
    let stores: [DatabaseQueue]
    let objects: [String: [UInt8]]
    private let sql: String

    /// A store without a repository, with the last version of the tables.
    func emptyStore(_ schema: SimulatedSchema) throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: sql)
            try schema.migrate(db, from: 0, to: SimulatedSchema.lastVersion)
        }
        return queue
    }

    fileprivate init(_ sql: String, rules: [(table: String, counters: Set<String>, deletionsWin: Bool)]) throws {
        let clock: @Sendable () -> HybridTime = { HybridTime(wallClock: SimulatedStore.firstTime - 1_000) }
        let remote = RemoteContent()
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: sql) }
        let founder = try ChangesetRepository(queue, settings: .init(), clock: clock)
        for rule in rules {
            try founder.setRules(of: rule.table, counters: rule.counters, deletionsWin: rule.deletionsWin)
        }
        var (queues, repositories) = ([queue], [founder])
        for _ in 1..<Plan.mostStores {
            let next = DatabaseQueue()
            try next.write { try $0.execute(sql: sql) }
            let invitation = try founder.invite(until: .max)
            try founder.sync(remote, named: "world")
            repositories.append(
                try ChangesetRepository.join(next, invitation, at: remote, remoteName: "world", clock: clock))
            queues.append(next)
        }
        for _ in 0..<2 { for repository in repositories { try repository.sync(remote, named: "world") } }
        for repository in repositories { try repository.forget(remote: "world") }
        (stores, objects, self.sql) = (queues, remote.objects, sql)
    }
}
