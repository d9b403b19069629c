import CipherDatabase

/// The rows that a block of the program changes, by comparing all rows before and after it.
struct InterimCapture {
    private struct Place: Hashable {
        let table: String
        let key: RowKey
    }

    private let db: Database
    private let former: [Place: [CellValue]]

    init(_ db: Database) throws {
        self.db = db
        former = try Self.rows(db)
    }

    func changes() throws -> [ProgramChange] {
        let present = try Self.rows(db)
        return Set(former.keys).union(present.keys).filter { former[$0] != present[$0] }
            .sorted { ($0.table, $0.key) < ($1.table, $1.key) }
            .map { ProgramChange(table: $0.table, old: former[$0], new: present[$0]) }
    }

    private static func rows(_ db: Database) throws -> [Place: [CellValue]] {
        let names = try String.fetchAll(
            db, sql: "SELECT local FROM \(EngineTables.table) WHERE local IS NOT NULL")
        var rows: [Place: [CellValue]] = [:]
        for name in names {
            guard let table = try TableDefinition(named: name, in: db) else { continue }
            try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)").forEach([]) { row in
                let values = table.columns.indices.map { row.value($0) }
                rows[Place(table: name, key: table.key(of: values))] = values
            }
        }
        return rows
    }
}
