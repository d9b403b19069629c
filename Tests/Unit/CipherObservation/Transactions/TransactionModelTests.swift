import CipherDatabase
import CipherObservation
import Testing

/// Random transactions, savepoints and observers, compared call by call with a model in plain Swift.
@Suite struct TransactionModelTests {
    // The seed is of a fault that this test has found: of an observer that came after all others had been removed
    // inside a savepoint, events stayed that a rollback to the savepoint should have dropped.
    @Test(
        "random transactions: each observer hears what the model says",
        arguments: [940_156_870_742_480_705] + (1...60).map { _ in UInt64.random(in: 0...UInt64.max) })
    func random(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let queue = DatabaseQueue()
        let log = Log()
        var model = Model()
        var observers: [Int: Listener] = [:]
        var history: [String] = []
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (id INTEGER PRIMARY KEY, v)")
            for step in 1...120 {
                let action = model.nextAction(&random)
                history.append("\(action)")
                let expected = model.perform(action)
                try perform(action, db, &observers, log)
                let (calls, rows) = (log.take(), try rows(db))
                #expect(calls == expected, "seed \(seed), step \(step): \(history.suffix(30).joined(separator: "; "))")
                #expect(rows == model.rows, "seed \(seed), step \(step): \(action)")
                #expect(db.isInsideTransaction == model.isInsideTransaction, "seed \(seed), step \(step): \(action)")
                if calls != expected || rows != model.rows { break }
            }
            if db.isInsideTransaction { try db.rollback() }
        }
    }

    private func rows(_ db: Database) throws -> [ModelRow] {
        try Row.fetchAll(db, sql: "SELECT 'a', id, v FROM a UNION ALL SELECT 'b', id, v FROM b ORDER BY 1, 2").map {
            ModelRow(table: $0[0], id: $0[1], value: $0[2])
        }
    }

    private func perform(
        _ action: Action, _ db: Database, _ observers: inout [Int: Listener], _ log: Log
    ) throws {
        switch action {
        case .sql(let sql, let fails):
            do {
                try db.execute(sql: sql)
                #expect(!fails, "\(sql)")
            } catch is PlannedFailure {
                // Whether a commit was to be vetoed shows in the calls.
            } catch {
                #expect(fails, "\(sql): \(error)")
            }
        case .add(let settings):
            let listener = Listener(settings, log)
            db.add(transactionObserver: listener, extent: settings.extent)
            observers[settings.number] = listener
        case .remove(let number): if let listener = observers[number] { db.remove(transactionObserver: listener) }
        case .release(let number): observers[number] = nil
        case .veto(let number): observers[number]?.vetoes = true
        }
    }
}

/// A row of the model.
private struct ModelRow: Hashable, Comparable {
    let table: String
    let id: Int64
    var value: Int

    static func < (left: ModelRow, right: ModelRow) -> Bool { (left.table, left.id) < (right.table, right.id) }
}

private enum Action {
    case sql(String, fails: Bool)
    case add(Settings)
    case remove(Int)
    case release(Int)
    case veto(Int)
}

/// The subject of an observer.
private struct Settings {
    let number: Int
    let tables: Set<String>
    let extent: Database.TransactionObservationExtent
    /// It stops at rows whose number is a multiple of this one.
    let stop: Int64
}

private final class Log {
    private var calls: [String] = []
    func add(_ call: String) { calls.append(call) }
    func take() -> [String] {
        defer { calls = [] }
        return calls
    }
}

private final class Listener: TransactionObserver {
    let settings: Settings
    var vetoes = false
    private let log: Log

    init(_ settings: Settings, _ log: Log) { (self.settings, self.log) = (settings, log) }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { settings.tables.contains(eventKind.tableName) }

    func databaseDidChange(with event: DatabaseEvent) {
        log.add("\(settings.number) \(event.kind) \(event.tableName) \(event.rowID)")
        if event.rowID.isMultiple(of: settings.stop) { stopObservingDatabaseChangesUntilNextTransaction() }
    }

    func databaseWillCommit() throws {
        log.add("\(settings.number) will")
        defer { vetoes = false }
        if vetoes { throw PlannedFailure() }
    }

    func databaseDidCommit(_ db: Database) { log.add("\(settings.number) commit") }
    func databaseDidRollback(_ db: Database) { log.add("\(settings.number) rollback") }
}

/// The work of SQLite and the observers.
private struct Model {
    private struct Observer {
        let settings: Settings
        var isStopped = false
        var vetoes = false
    }

    private struct Event {
        let kind: String
        let table: String
        let id: Int64
    }

    private struct Savepoint {
        let name: String
        let rows: [ModelRow]
        let keptCount: Int
    }

    private(set) var rows: [ModelRow] = []
    private var observers: [Observer] = []
    private var kept: [(event: Event, targets: [Int])] = []
    private var savepoints: [Savepoint] = []
    /// The rows before the transaction; nil outside of one.
    private var former: [ModelRow]?
    private var beganBySavepoint = false
    private var lastNumber = 0

    var isInsideTransaction: Bool { former != nil }

    // MARK: Choosing

    mutating func nextAction(_ random: inout SeededGenerator) -> Action {
        switch Int.random(in: 0..<20, using: &random) {
        case 0, 1: return add(&random)
        case 2:
            guard let observer = observers.randomElement(using: &random) else { return add(&random) }
            return .remove(observer.settings.number)
        case 3:
            let released = observers.filter { $0.settings.extent == .observerLifetime }
            guard let observer = released.randomElement(using: &random) else { return add(&random) }
            return .release(observer.settings.number)
        case 4:
            guard let observer = observers.randomElement(using: &random) else { return add(&random) }
            return .veto(observer.settings.number)
        case 5, 6: return .sql(isInsideTransaction ? "COMMIT" : "BEGIN", fails: false)
        case 7: return .sql(isInsideTransaction ? "ROLLBACK" : "BEGIN IMMEDIATE", fails: false)
        case 8, 9: return .sql("SAVEPOINT \(["s", "S", "t"].randomElement(using: &random) ?? "s")", fails: false)
        case 10: return savepoint("RELEASE", &random)
        case 11: return savepoint("ROLLBACK TO", &random)
        default: return change(&random)
        }
    }

    private mutating func add(_ random: inout SeededGenerator) -> Action {
        lastNumber += 1
        let tables: [Set<String>] = [["a"], ["b"], ["a", "b"], []]
        let extents: [Database.TransactionObservationExtent] = [.observerLifetime, .nextTransaction, .databaseLifetime]
        return .add(
            Settings(
                number: lastNumber, tables: tables.randomElement(using: &random) ?? [],
                extent: extents.randomElement(using: &random) ?? .observerLifetime,
                stop: Int64.random(in: 3...9, using: &random)))
    }

    private func savepoint(_ verb: String, _ random: inout SeededGenerator) -> Action {
        guard let savepoint = savepoints.randomElement(using: &random) else {
            return .sql("BEGIN", fails: isInsideTransaction)
        }
        return .sql("\(verb) \(savepoint.name)", fails: false)
    }

    private func change(_ random: inout SeededGenerator) -> Action {
        let (table, id) = (Bool.random(using: &random) ? "a" : "b", Int64.random(in: 1...12, using: &random))
        let isThere = rows.contains { $0.table == table && $0.id == id }
        switch Int.random(in: 0..<3, using: &random) {
        case 0 where isThere: return .sql("DELETE FROM \(table) WHERE id = \(id)", fails: false)
        case 1 where isThere: return .sql("UPDATE \(table) SET v = v + 1 WHERE id = \(id)", fails: false)
        default: return .sql("INSERT INTO \(table) VALUES (\(id), 0)", fails: isThere)
        }
    }

    // MARK: Performing

    /// - Returns: The calls of the observers, in order.
    mutating func perform(_ action: Action) -> [String] {
        var calls: [String] = []
        switch action {
        case .add(let settings): observers.append(Observer(settings: settings))
        case .remove(let number), .release(let number): observers.removeAll { $0.settings.number == number }
        case .veto(let number):
            for index in observers.indices where observers[index].settings.number == number {
                observers[index].vetoes = true
            }
        case .sql(_, fails: true): break
        case .sql(let sql, fails: false): perform(sql, &calls)
        }
        return calls
    }

    private mutating func perform(_ sql: String, _ calls: inout [String]) {
        let words = sql.split(separator: " ").map(String.init)
        switch words[0] {
        case "BEGIN": former = rows
        case "COMMIT": commit(&calls)
        case "SAVEPOINT":
            if former == nil { (former, beganBySavepoint) = (rows, true) }
            savepoints.append(Savepoint(name: words[1].lowercased(), rows: rows, keptCount: kept.count))
        case "RELEASE":
            guard let index = place(of: words[1]) else { return }
            if index == 0 && beganBySavepoint { return commit(&calls) }
            savepoints.removeSubrange(index...)
            if index == 0 { tellKept(&calls) }
        case "ROLLBACK" where words.count == 1: rollback(&calls)
        case "ROLLBACK":
            guard let index = place(of: words[2]) else { return }
            rows = savepoints[index].rows
            kept.removeSubrange(savepoints[index].keptCount...)
            savepoints.removeSubrange((index + 1)...)
        default:
            let isImplicit = former == nil
            if isImplicit { former = rows }
            change(words, &calls)
            if isImplicit { commit(&calls) }
        }
    }

    private func place(of name: String) -> Int? { savepoints.lastIndex { $0.name == name.lowercased() } }

    private mutating func change(_ words: [String], _ calls: inout [String]) {
        switch words[0] {
        case "INSERT":
            let id = Int64(words[4].dropFirst().dropLast()) ?? 0
            rows = (rows + [ModelRow(table: words[2], id: id, value: 0)]).sorted()
            tell(Event(kind: "insert", table: words[2], id: id), &calls)
        case "DELETE":
            let id = Int64(words[6]) ?? 0
            rows.removeAll { $0.table == words[2] && $0.id == id }
            tell(Event(kind: "delete", table: words[2], id: id), &calls)
        default:
            let id = Int64(words[11]) ?? 0
            for index in rows.indices where rows[index].table == words[1] && rows[index].id == id {
                rows[index].value += 1
            }
            tell(Event(kind: "update", table: words[1], id: id), &calls)
        }
    }

    private mutating func tell(_ event: Event, _ calls: inout [String]) {
        let targets = observers.filter { $0.settings.tables.contains(event.table) && !$0.isStopped }
            .map(\.settings.number)
        if savepoints.isEmpty { report(event, to: targets, &calls) } else { kept.append((event, targets)) }
    }

    private mutating func report(_ event: Event, to targets: [Int], _ calls: inout [String]) {
        for index in observers.indices {
            let settings = observers[index].settings
            guard targets.contains(settings.number), !observers[index].isStopped else { continue }
            calls.append("\(settings.number) \(event.kind) \(event.table) \(event.id)")
            if event.id.isMultiple(of: settings.stop) { observers[index].isStopped = true }
        }
    }

    private mutating func tellKept(_ calls: inout [String]) {
        let events = kept
        kept = []
        for (event, targets) in events { report(event, to: targets, &calls) }
    }

    private mutating func commit(_ calls: inout [String]) {
        tellKept(&calls)
        for index in observers.indices {
            calls.append("\(observers[index].settings.number) will")
            if observers[index].vetoes {
                observers[index].vetoes = false
                return rollback(&calls)
            }
        }
        end("commit", &calls)
    }

    private mutating func rollback(_ calls: inout [String]) {
        rows = former ?? rows
        end("rollback", &calls)
    }

    private mutating func end(_ name: String, _ calls: inout [String]) {
        for observer in observers { calls.append("\(observer.settings.number) \(name)") }
        observers.removeAll { $0.settings.extent == .nextTransaction }
        for index in observers.indices { observers[index].isStopped = false }
        (kept, savepoints, former, beganBySavepoint) = ([], [], nil, false)
    }
}
