import CipherDatabase

/// A foreign key of a table that is not tracked, to one that is.
struct UntrackedReference: Sendable {
    enum Action: Sendable { case none, cascade, setNull, setDefault }

    let child: String
    let columns: [String]
    /// The values in SQL that the columns have by default.
    let defaults: [String]
    /// The places of the columns of the parent.
    let parentColumns: [Int]
    let onDelete: Action
    let onUpdate: Action
}

extension UntrackedReference {
    /// Reads the references to tracked tables, by the number of the parent.
    static func all(_ db: Database, _ tables: [Int64: BaseTable]) throws -> [Int64: [UntrackedReference]] {
        var parents: [String: BaseTable] = [:]
        for table in tables.values { if let name = table.local?.name { parents[name.lowercased()] = table } }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT s.name, f.id, f."table", f."from", f."to", f.on_delete, f.on_update, t.dflt_value
                FROM main.sqlite_schema AS s, pragma_foreign_key_list(s.name, 'main') AS f
                JOIN pragma_table_info(s.name, 'main') AS t ON t.name = f."from" COLLATE NOCASE
                WHERE s.type = 'table' ORDER BY s.name, f.id, f.seq
                """)
        var found: [Int64: [UntrackedReference]] = [:]
        for rows in Dictionary(grouping: rows, by: { ($0[0] as String) + "\u{1F}\($0[1] as Int)" }).values {
            let child: String = rows[0][0]
            guard parents[child.lowercased()] == nil, !Database.isStoreInternalObject(child),
                let parent = parents[(rows[0][2] as String).lowercased()], let definition = parent.local
            else { continue }
            let named = rows.compactMap { $0[4] as String? }
            let columns = named.isEmpty ? definition.keyColumns : named.compactMap(definition.column(named:))
            guard columns.count == rows.count else { continue }
            found[parent.n, default: []].append(
                UntrackedReference(
                    child: child, columns: rows.map { $0[3] }, defaults: rows.map { ($0[7] as String?) ?? "NULL" },
                    parentColumns: columns, onDelete: action(rows[0][5]), onUpdate: action(rows[0][6])))
        }
        return found
    }

    private static func action(_ name: String) -> Action {
        switch name.uppercased() {
        case "CASCADE": .cascade
        case "SET NULL": .setNull
        case "SET DEFAULT": .setDefault
        default: .none
        }
    }
}

/// Rows of tables that are not tracked follow their parents, as ON DELETE and ON UPDATE say. If these say nothing, or the
/// table refuses it, a row refers to no parent, and the status lists it.
struct UntrackedChildren {
    let work: Work
    private var db: Database { work.db }

    /// Follows the rows of tracked tables that a join has changed.
    func follow() throws {
        let all = work.catalog.untrackedReferences
        if all.isEmpty { return }
        var changes: [(table: TableDefinition, references: [UntrackedReference], old: [CellValue], new: [CellValue]?)] =
            []
        for (place, old) in work.base.unrecordedRows where !work.base.isWrittenByProgram(place) {
            guard let references = all[place.table], let old,
                let table = try work.catalog.table(place.table).local
            else { continue }
            changes.append((table, references, old, try work.base.presentRow(place)))
        }
        if changes.isEmpty { return }
        try db.withForeignKeysAndTriggersResumed(foreignKeys: true) {
            for change in changes {
                for reference in change.references { try follow(reference, change.table, change.old, change.new) }
            }
        }
    }

    private func follow(
        _ reference: UntrackedReference, _ table: TableDefinition, _ old: [CellValue], _ new: [CellValue]?
    ) throws {
        let values = reference.parentColumns.map { old[$0] }
        let present = new.map { row in reference.parentColumns.map { row[$0] } }
        guard values != present, !values.contains(where: \.isNull) else { return }
        let isThere = try !work.writer.keys(of: table, having: values, in: reference.parentColumns, nil).isEmpty
        if isThere { return }
        let condition = reference.columns.map { "\($0.quotedDatabaseIdentifier) = ?" }.joinedAsExpression(by: " AND ")
        let child = "main." + reference.child.quotedDatabaseIdentifier
        func set(_ values: [String]) -> String {
            let settings = zip(reference.columns, values).map { "\($0.quotedDatabaseIdentifier) = \($1)" }
            return "UPDATE \(child) SET \(settings.joined(separator: ", ")) WHERE \(condition)"
        }
        var (sql, given) = ("", [ExactValue]())
        switch new == nil ? reference.onDelete : reference.onUpdate {
        case .none: return
        case .cascade:
            if let present {
                (sql, given) = (set(present.map { _ in "?" }), present.map(\.exact))
            } else {
                sql = "DELETE FROM \(child) WHERE \(condition)"
            }
        case .setNull: sql = set(reference.columns.map { _ in "NULL" })
        case .setDefault: sql = set(reference.defaults.map { "(\($0))" })
        }
        try db.inSavepoint {
            do {
                try db.cachedStatement(sql: sql).execute(exact: given + values.map(\.exact))
                return .commit
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                return .rollback
            }
        }
    }

    /// How many rows refer to no parent, by child and parent.
    func orphans() throws -> [(child: String, parent: String, rows: Int)] {
        let children = Set(work.catalog.untrackedReferences.values.joined().map(\.child))
        var found: [(String, String, Int)] = []
        for child in children.sorted() {
            let rows = try Row.fetchAll(
                db, sql: "SELECT parent, count(*) FROM pragma_foreign_key_check(?) GROUP BY parent ORDER BY parent",
                arguments: [child])
            for row in rows where work.catalog.local(row[0]) != nil { found.append((child, row[0], row[1])) }
        }
        return found
    }
}
