import ChangesetSync
import CipherDatabase
import StoreCrypto

/// Some of the tables of the simulation, which refer to each other, and statements that change a few rows in many ways.
struct SimulatedSchema: Sendable {
    /// The tables that refer to `p`.
    let children: [String]
    /// A store with the tables and without a commit, and one with rows that all stores have before the first step.
    let template: Result<DatabaseQueue, any Error>
    let startedTemplate: Result<DatabaseQueue, any Error>
    /// Selects all rows of the tracked tables, with their types.
    let rows: String

    static let all = [
        ["c1", "c2", "c3", "c4"], ["c1"], ["c2"], ["c3"], ["c4"], ["c1", "c3"], ["c2", "c4"], ["c2", "c3"],
    ].map(SimulatedSchema.init)

    private init(_ children: [String]) {
        self.children = children
        template = Result { try Self.store(children, start: []) }
        startedTemplate = Result {
            let parents = ["INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)"]
            return try Self.store(children, start: parents + children.map { "INSERT INTO \($0) VALUES (1, 2, 1)" })
        }
        rows =
            "SELECT 'p', quote(id), quote(name), quote(v) FROM p"
            + children.map { " UNION ALL SELECT '\($0)', quote(id), quote(p), quote(w) FROM \($0)" }.joined()
            + " UNION ALL SELECT 'journal', quote(id), quote(place), '' FROM journal"
            + " UNION ALL SELECT 'counter', quote(id), quote(v), '' FROM counter ORDER BY 1, 2"
    }

    private static func store(_ children: [String], start: [String]) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.transactionClock = TestClock(seconds: 900_000)
        let queue = DatabaseQueue(configuration: configuration)
        try queue.write { try $0.execute(sql: creation) }
        let repository = ChangesetRepository(queue)
        try repository.migrate()
        try repository.enable(["p"] + children + ["journal", "counter"], key: key())
        try repository.commit { db in
            for sql in start { try db.execute(sql: sql) }
        }
        // Nothing of the state is left in the row of the commit, where a store could not change its author.
        try queue.write { try $0.execute(sql: "INSERT INTO journal VALUES (0, 0); DELETE FROM journal") }
        try repository.commitForeignWrites()
        return queue
    }

    /// The key of the repository of all schedules: identifiers are the same each time.
    static func key() throws -> RepositoryKey {
        guard let repository = RepositoryID(bytes: Array(repeating: 7, count: RepositoryID.byteCount)) else {
            throw SyncSimulationError.key
        }
        let secret = SecretBytes(copying: Array(repeating: UInt8(9), count: RepositoryKey.secretBytes))
        return try RepositoryKey(repository: repository, epoch: 1, secret: secret)
    }

    private enum SyncSimulationError: Error { case key }

    private static let creation = """
        CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, v INT);
        CREATE TABLE c1 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE CASCADE, w);
        CREATE TABLE c2 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE SET NULL, w);
        CREATE TABLE c3 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE RESTRICT, w);
        CREATE TABLE c4 (id INTEGER PRIMARY KEY NOT NULL, p INT DEFAULT 2 REFERENCES p(id) ON DELETE SET DEFAULT, w);
        CREATE UNIQUE INDEX few ON c2 (w % 4) WHERE p IS NULL;
        CREATE UNIQUE INDEX odd ON c4 (w / 2);
        CREATE TABLE journal (id INTEGER PRIMARY KEY NOT NULL, place INT);
        CREATE TABLE counter (id INTEGER PRIMARY KEY NOT NULL, v INT);
        """

    func statement(_ dice: inout Dice) -> String {
        let (table, id) = ((["p"] + children)[dice(0...children.count)], dice(1...5))
        let name = ["'a'", "'b'", "'c'", "'d'", "NULL"][dice(0...4)]
        if table == "p" {
            switch dice(0...5) {
            case 0: return "DELETE FROM p WHERE id = \(id)"
            case 1: return "UPDATE p SET name = \(name) WHERE id = \(id)"
            case 2: return "UPDATE p SET v = \(dice(1...9)) WHERE id = \(id)"
            case 3: return "UPDATE OR IGNORE p SET id = \(dice(1...5)) WHERE id = \(id)"
            default: return "INSERT INTO p VALUES (\(id), \(name), \(dice(1...9)))"
            }
        }
        let parent = dice(0...5) == 0 ? "NULL" : String(dice(1...5))
        switch dice(0...5) {
        case 0: return "DELETE FROM \(table) WHERE id = \(id)"
        case 1: return "UPDATE \(table) SET p = \(parent) WHERE id = \(id)"
        case 2: return "UPDATE \(table) SET w = \(dice(1...9)) WHERE id = \(id)"
        case 3: return "INSERT OR REPLACE INTO \(table) VALUES (\(id), \(parent), \(dice(1...9)))"
        default: return "INSERT INTO \(table) VALUES (\(id), \(parent), \(dice(1...9)))"
        }
    }
}
