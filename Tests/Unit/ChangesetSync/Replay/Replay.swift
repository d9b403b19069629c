import CipherDatabase
import Foundation

@testable import ChangesetSync

/// Plays the events of a run of the model on stores, and compares the states.
final class Replay {
    private let schema: ReplaySchema
    private var stores: [String: ReplayStore] = [:]
    private var saved: [Int64: ReplayStore] = [:]
    private var snapshots: [Int64: Snapshot] = [:]
    private var commits: [String: EncodedCommit] = [:]
    private(set) var paths: [Dot: String] = [:]

    init(_ run: TraceLine) {
        schema = ReplaySchema(run: run, hasTextKeys: (run.integer("seed") ?? 0) % 2 == 1)
    }

    /// - Returns: How the first state differs; nil if none does.
    static func difference(in run: [TraceLine]) -> String? {
        guard let first = run.first else { return nil }
        let replay = Replay(first)
        for (number, line) in run.enumerated().dropFirst() {
            let place = "seed \(first.integer("seed") ?? -1), event \(number): \(line.description)"
            do {
                if let difference = try replay.play(line) { return "\(place)\n\(difference)" }
            } catch {
                return "\(place)\n\(error)"
            }
        }
        return nil
    }

    private func store(_ name: String) throws -> ReplayStore {
        guard let store = stores[name] else { throw ModelFailure(text: "no store \(name)") }
        return store
    }

    private func play(_ line: TraceLine) throws -> String? {
        if line.event == "new" {
            stores[line.replica] = try ReplayStore(
                line.replica, schema, isOlder: line.text("schema") == "older",
                sliceRows: Int(line.integer("slices") ?? 0))
            return nil
        }
        let store = try store(line.replica)
        let clock = HybridTime(rawValue: UInt64(line.integer("clock") ?? 0))
        if line.event == "restore" {
            guard let copy = saved[line.integer("id") ?? -1] else { throw ModelFailure(text: "no copy") }
            stores[line.replica] = copy
            try copy.queue.writeWithoutTransaction { try copy.replica.beginBranch($0, clock: clock) }
            return nil
        }
        if line.event == "save" {
            saved[line.integer("id") ?? -1] = try ReplayStore(copying: store)
            return nil
        }
        let made = try store.queue.writeWithoutTransaction { db in try self.play(line, store, db, clock) }
        if let difference = note(made, line) { return difference }
        guard let state = line.line("state") else { return nil }
        return try compare(state, stores[line.replica] ?? store, clock)
    }

    private func play(
        _ line: TraceLine, _ store: ReplayStore, _ db: Database, _ clock: HybridTime
    ) throws -> [EncodedCommit] {
        let replica = store.replica
        switch line.event {
        case "act": return try act(line, store, db, clock)
        case "remove":
            return [try replica.commitEvents(db, clock: clock, [.remove(ReplayStore.id(line.text("member")))])]
        case "fetch":
            guard let commit = commits[line.text("dot")] else { throw ModelFailure(text: "no commit") }
            try replica.fetch(db, clock: clock, commit)
        case "begin":
            guard let commit = commits[line.text("dot")] else { throw ModelFailure(text: "no commit") }
            return try replica.begin(db, clock: clock, commit.commit.author, commit.tip)
        case "step": return try replica.step(db, clock: clock)
        case "kill": store.kill()
        case "snapshot":
            let snapshot = try replica.snapshot(db, clock: clock)
            guard (snapshot == nil) == (line.integer("id") == nil) else { throw ModelFailure(text: "a snapshot") }
            if let id = line.integer("id") { snapshots[id] = snapshot }
        case "join":
            guard let snapshot = snapshots[line.integer("id") ?? -1] else { throw ModelFailure(text: "no snapshot") }
            try replica.begin(db, clock: clock, snapshot)
            return store.sliceRows == 0 ? try replica.step(db, clock: clock) : []
        case "grace": try replica.forgetTombstones(db, clock: clock)
        case "forget": try replica.forget(db, clock: clock, tombstones: line.flag("tombstones"))
        default: throw ModelFailure(text: "unknown event")
        }
        return []
    }

    private func note(_ made: [EncodedCommit], _ line: TraceLine) -> String? {
        let expected = line.lines("made")
        if made.count != expected.count { return "\(made.count) commits were made, expected \(expected.count)" }
        for (commit, expected) in zip(made, expected) {
            commits[expected.text("dot")] = commit
            paths[commit.dot] = expected.text("dot")
            if commit.commit.time.rawValue != UInt64(expected.integer("time") ?? -1) {
                return "time \(commit.commit.time.rawValue), expected \(expected.integer("time") ?? -1)"
            }
            let kinds = expected.lines("writes").map { $0.text("kind") }.filter { !["remove", "vouch"].contains($0) }
            let found = commit.commit.writes.map { "\($0.shape.kind)" }
            if found != kinds { return "writes \(found), expected \(kinds)" }
        }
        return nil
    }

    // MARK: The program

    private func act(
        _ line: TraceLine, _ store: ReplayStore, _ db: Database, _ clock: HybridTime
    ) throws -> [EncodedCommit] {
        let order = line.lines("made").first?.lines("writes").map { $0.list("key").map { "\($0)" } } ?? []
        do {
            let commit = try store.replica.record(db, clock: clock) {
                let former = try self.rows(db)
                for action in line.list("actions").compactMap({ $0 as? [Any] }) { try self.run(action, db) }
                let changes = self.changes(from: former, to: try self.rows(db))
                return changes.sorted { one, other in
                    (order.firstIndex(of: one.key) ?? .max) < (order.firstIndex(of: other.key) ?? .max)
                }.map(\.change)
            }
            if line.flag("refused") { throw ModelFailure(text: "the model refuses it") }
            return commit.map { [$0] } ?? []
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT && line.flag("refused") {
            return []
        } catch is NoSuchRow where line.flag("refused") {
            return []
        }
    }

    private struct NoSuchRow: Error {}

    private func run(_ action: [Any], _ db: Database) throws {
        guard let verb = action[0] as? String, let table = action[1] as? String,
            let values = action[3] as? [String: Any]
        else { throw ModelFailure(text: "an action") }
        let names = values.keys.sorted()
        let key = schema.value(action[2], table: table, column: "id")
        let cells = names.map { schema.value(values[$0] ?? NSNull(), table: table, column: $0) }
        switch verb {
        case "insert":
            let places = (["?"] + names.map { _ in "?" }).joined(separator: ", ")
            try db.execute(
                sql: "INSERT INTO \(table) (\((["id"] + names).joined(separator: ", "))) VALUES (\(places))",
                arguments: StatementArguments([key] + cells))
        case "set", "step":
            let settings = names.map { verb == "set" ? "\($0) = ?" : "\($0) = \($0) + ?" }.joined(separator: ", ")
            try db.execute(
                sql: "UPDATE \(table) SET \(settings) WHERE id = ?", arguments: StatementArguments(cells + [key]))
        default: try db.execute(sql: "DELETE FROM \(table) WHERE id = ?", arguments: StatementArguments([key]))
        }
        if db.changesCount == 0 { throw NoSuchRow() }
    }

    /// All rows by table and key.
    private func rows(_ db: Database) throws -> [[String]: [CellValue]] {
        var rows: [[String]: [CellValue]] = [:]
        for table in ["p", "c", "t"] {
            let statement = try db.makeStatement(sql: "SELECT * FROM \(table)")
            try statement.forEach([]) { row in
                let values = (0..<statement.columnCount).map { row.value($0) }
                rows[[table, Self.text(values[0], isKey: true)]] = values
            }
        }
        return rows
    }

    private func changes(
        from old: [[String]: [CellValue]], to new: [[String]: [CellValue]]
    ) -> [(key: [String], change: ProgramChange)] {
        Set(old.keys).union(new.keys).filter { old[$0] != new[$0] }.sorted { $0.joined() < $1.joined() }.map {
            ($0, ProgramChange(table: $0[0], old: old[$0], new: new[$0]))
        }
    }

    // MARK: States

    private func compare(_ state: TraceLine, _ store: ReplayStore, _ clock: HybridTime) throws -> String? {
        let expected = ModelState(state)
        var found = ModelState()
        try store.queue.writeWithoutTransaction { db in
            for (key, values) in try self.rows(db) {
                let names = try db.columns(in: key[0]).map(\.name)
                let cells = zip(names, values).dropFirst().map { "\($0)=\(Self.text($1, isKey: $0 == "parent"))" }
                found.lines.insert("shown \(key.joined(separator: " ")) \(cells.sorted().joined(separator: " "))")
            }
            try store.replica.inspect(db, clock: clock) { try found.add($0, paths: paths) }
        }
        let (missing, extra) = (expected.lines.subtracting(found.lines), found.lines.subtracting(expected.lines))
        if missing.isEmpty, extra.isEmpty { return nil }
        return (missing.sorted().map { "  model:  \($0)" } + extra.sorted().map { "  engine: \($0)" })
            .joined(separator: "\n")
    }

    static func text(_ value: CellValue, isKey: Bool) -> String {
        switch value {
        case .null: "NULL"
        case .integer(let number): isKey ? "\(number)" : "#\(number)"
        case .real(let number): "\(number)"
        case .text(let bytes), .blob(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }
}
