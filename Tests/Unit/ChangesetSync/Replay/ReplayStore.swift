import CipherDatabase
import Foundation

@testable import ChangesetSync

/// How the tables of a run are declared.
struct ReplaySchema {
    let run: TraceLine
    /// Whether table t has text keys and no row id, and p an integer key; or the other way round.
    let hasTextKeys: Bool

    private var parentType: String { hasTextKeys ? "INTEGER" : "TEXT" }

    func tables(isOlder: Bool) -> String {
        let counter = run.flag("counters") ? "n INTEGER DEFAULT 0" : "n"
        let names = isOlder ? "title" : "z DEFAULT 'd', name"
        let check = run.flag("check") ? ", CHECK (x + y <= 10)" : ""
        let key = hasTextKeys ? "id TEXT NOT NULL PRIMARY KEY" : "id INTEGER PRIMARY KEY"
        let parentKey = hasTextKeys ? "id INTEGER PRIMARY KEY" : "id TEXT NOT NULL PRIMARY KEY"
        let action = run.text("on_delete").uppercased()
        let reference = action.isEmpty ? "" : "REFERENCES p (id) ON DELETE \(action)"
        let isNotNull = run.flag("not_null")
        let value = run.text("default").isEmpty ? "" : "DEFAULT \(hasTextKeys ? "1" : "'1'")"
        return """
            CREATE TABLE p (\(parentKey), x);
            CREATE TABLE c (\(key), parent \(parentType) \(isNotNull ? "NOT NULL" : "") \(value) \(reference), x);
            CREATE TABLE t (\(key), x, y, \(counter), u \(run.flag("unique") ? "UNIQUE" : ""), \(names)\(check))
                \(hasTextKeys ? "WITHOUT ROWID" : "");
            """
    }

    /// A value of the model for a column.
    func value(_ value: Any, table: String, column: String) -> DatabaseValue {
        let isKey = column == "id" || column == "parent"
        let isInteger = (table == "p" || column == "parent") == hasTextKeys
        switch value {
        case let text as String: return isKey && isInteger ? (Int64(text) ?? 0).databaseValue : text.databaseValue
        case let number as NSNumber: return number.int64Value.databaseValue
        default: return .null
        }
    }
}

/// A store of a replay.
final class ReplayStore {
    let queue: DatabaseQueue
    let name: String
    let isOlder: Bool
    let sliceRows: Int
    var replica: Replica

    init(_ name: String, _ schema: ReplaySchema, isOlder: Bool, sliceRows: Int) throws {
        (self.name, self.isOlder, self.sliceRows) = (name, isOlder, sliceRows)
        queue = DatabaseQueue()
        replica = Self.replica(sliceRows)
        try queue.write { db in
            try db.execute(sql: schema.tables(isOlder: isOlder))
            try Replica.create(db, repository: .zero, author: Self.id(name))
        }
        let counters: Set<String> = schema.run.flag("counters") ? ["n"] : []
        try queue.writeWithoutTransaction { db in
            for table in ["p", "c", "t"] {
                try replica.track(
                    db, clock: .init(rawValue: 0),
                    TrackedTable(
                        table, identities: ["name": ColumnID("title")], counters: table == "t" ? counters : []))
            }
        }
    }

    /// A copy of a store.
    init(copying other: ReplayStore) throws {
        (name, isOlder, sliceRows) = (other.name, other.isOlder, other.sliceRows)
        let copy = DatabaseQueue()
        try other.queue.writeWithoutTransaction { source in
            try copy.writeWithoutTransaction { try source.backup(to: $0) }
        }
        queue = copy
        replica = Self.replica(sliceRows)
    }

    func kill() { replica = Self.replica(sliceRows) }

    private static func replica(_ sliceRows: Int) -> Replica {
        var settings = Replica.Settings()
        (settings.sliceRows, settings.sliceTime, settings.clockBound) = (sliceRows, nil, 1000)
        return Replica(settings: settings)
    }

    static func id(_ name: String) throws -> ReplicaID {
        let bytes = Array(name.utf8) + [UInt8](repeating: 0, count: 16 - name.utf8.count)
        guard let id = ReplicaID(bytes: bytes) else { throw ModelFailure(text: "no name: \(name)") }
        return id
    }
}
