import CipherDatabase
import CipherObservation
import Foundation
import Testing

/// A copy of tables that is kept equal to them by the history alone.
private final class Mirror {
    typealias Key = [DatabaseValue.Storage]
    private let tables: [RandomTable]
    private var token: HistoryToken
    private var rows: [String: [Key: [Key]]] = [:]
    /// The keys that insertions and deletions have left, without a look at the tables.
    private var keys: [String: Set<Key>] = [:]

    init(_ db: Database, _ tables: [RandomTable]) throws {
        self.tables = tables
        token = try db.historyToken()
        for table in tables { try readAgain(table, db) }
    }

    private func readAgain(_ table: RandomTable, _ db: Database) throws {
        rows[table.name] = try Self.rows(of: table, db)
        keys[table.name] = Set(rows[table.name]?.keys.map { $0 } ?? [])
    }

    static func rows(of table: RandomTable, _ db: Database, where condition: String = "1") throws -> [Key: [Key]] {
        let key = table.key.joined(separator: ", ")
        let fetched = try Row.fetchAll(db, sql: "SELECT \(key), * FROM \(table.name) WHERE \(condition)")
        let values = fetched.map { row in (0..<row.count).map { (row[$0] as DatabaseValue).storage } }
        // Several rows may have NULL in their key.
        return Dictionary(grouping: values) { Array($0.prefix(table.key.count)) }.mapValues { rows in
            rows.count == 1 ? rows : rows.sorted { "\($0)" < "\($1)" }
        }
    }

    /// Reads the rest of the history, in one transaction and in pages, and returns what differs then.
    func replay(_ db: Database, limit: Int) throws -> [String] {
        var problems: [String] = []
        while true {
            let page = try db.history(since: token, limit: limit)
            for change in page.transactions.flatMap(\.changes) {
                guard let table = tables.first(where: { $0.name == change.tableName }) else { continue }
                if change.kind == .reset {
                    try readAgain(table, db)
                    continue
                }
                let key = table.key.compactMap { change.key[$0]?.storage }
                if key.count != table.key.count {
                    problems.append("a key of \(table.name) has \(change.key.count) columns")
                }
                let now = try Self.rows(of: table, db, where: Self.condition(table, key))
                rows[table.name]?[key] = now[key]
                if change.kind == .deleted { keys[table.name]?.remove(key) } else { keys[table.name]?.insert(key) }
            }
            token = page.token
            if !page.hasMore { break }
        }
        for table in tables {
            let actual = try Self.rows(of: table, db)
            if rows[table.name] != actual { problems.append("rows of \(table.name) differ") }
            let plain: (Key) -> Bool = { !$0.contains(.null) }
            let expected = Set(actual.keys.filter(plain))
            let found: Set<Key> = (keys[table.name] ?? []).filter(plain)
            if found != expected {
                problems.append("keys of \(table.name): \(found.symmetricDifference(expected))")
            }
        }
        return problems
    }

    private static func condition(_ table: RandomTable, _ key: Key) -> String {
        zip(table.key, key).map { name, value in
            let literal: String =
                switch value {
                case .null: "NULL"
                case .int64(let number): "\(number)"
                case .double(let number): "\(number)"
                case .string(let text): "'\(text)'"
                case .blob(let data): "x'" + data.map { String(format: "%02x", $0) }.joined() + "'"
                }
            return "\(name) COLLATE BINARY IS \(literal) AND typeof(\(name)) = typeof(\(literal))"
        }.joined(separator: " AND ")
    }
}

/// Random schemas and edits, by the library and by a stock connection: a mirror that follows the history alone equals
/// the tables.
@Suite struct HistoryMirrorTests {
    /// Sets another seed for a run: `HISTORY_SEED=5`.
    private static let base = UInt64(ProcessInfo.processInfo.environment["HISTORY_SEED"] ?? "") ?? 1
    private static let count = UInt64(ProcessInfo.processInfo.environment["HISTORY_RUNS"] ?? "") ?? 40

    @Test("a mirror that replays the history equals the tables at every token")
    func mirror() throws {
        for seed in Self.base..<(Self.base + Self.count) {
            if let problem = try run(seed) { Issue.record("\(problem)") }
        }
    }

    @Test(
        "without one of the triggers the mirror differs",
        arguments: ["insert", "update", "rekey", "delete", "replace", "displace"])
    func mutants(trigger: String) throws {
        let isSeen = try (1...200).contains { try run($0, without: trigger) != nil }
        #expect(isSeen)
    }

    /// - Parameter trigger: The kind of triggers that is dropped first.
    /// - Returns: What differs.
    private func run(_ seed: UInt64, without trigger: String? = nil) throws -> String? {
        let file = TemporaryFile()
        var config = Configuration()
        config.allowsUnencrypted = true
        var edits = RandomEdits(seed: seed)
        let queue = try DatabaseQueue(path: file.path, configuration: config)
        try queue.write { db in
            for sql in edits.schema { try db.execute(sql: sql) }
            for _ in 0..<10 { try? db.execute(sql: edits.statement()) }
            try db.recordHistory(of: .allTables, columns: edits.numbers.chance(50))
        }
        let mirror = try queue.read { try Mirror($0, edits.tables) }
        let stock = StockConnection(file.path)
        for number in 1...3 where trigger != nil {
            stock.execute("DROP TRIGGER IF EXISTS cipherstore_history_\(number)_\(trigger ?? "")")
        }
        for round in 0..<30 {
            let isStock = edits.numbers.chance(40)
            let settings =
                "PRAGMA recursive_triggers = \(edits.numbers.chance(25)); PRAGMA foreign_keys = \(edits.numbers.chance(80))"
            let statements = edits.batch()
            if isStock {
                for sql in [settings] + statements { stock.execute(sql) }
                stock.execute("ROLLBACK")
            } else {
                try queue.inDatabase { db in
                    for sql in [settings] + statements { try? db.execute(sql: sql) }
                    if db.isInsideTransaction { try db.rollback() }
                }
            }
            if edits.numbers.chance(40) { continue }
            let limit = edits.numbers.pick([1, 2, 3, 1_000])
            let problems = try queue.read { try mirror.replay($0, limit: limit) }
            if problems.isEmpty { continue }
            let log = edits.schema + [isStock ? "-- stock" : "-- own", settings] + statements
            return "seed \(seed), round \(round): \(problems)\n\(log.joined(separator: ";\n"))"
        }
        return nil
    }
}
