import CipherDatabase

/// A table that is being changed: `Database.alter(table:body:)` passes it to its closure.
/// - SeeAlso: <https://www.sqlite.org/lang_altertable.html>
public final class TableAlteration {
    private enum Step {
        case add(ColumnDefinition)
        case addText(SQL)
        case sql(String)
    }

    private let name: String
    private var steps: [Step] = []

    init(name: String) { self.name = name }

    /// Runs the steps in order. Each sees the table as the one before it left it.
    func run(_ db: Database) throws {
        let table = "ALTER TABLE \(name.quotedDatabaseIdentifier) "
        for step in steps {
            switch step {
            case .sql(let sql): try db.execute(sql: table + sql)
            case .addText(let text): try db.execute(sql: table + "ADD COLUMN \(text.definition(db))")
            case .add(let column):
                try db.execute(sql: table + "ADD COLUMN \(column.sql(db.keyColumns(ifExists:), db))")
                if column.needsIndex { try db.execute(sql: IndexDefinition(on: name, column: column.name).sql) }
            }
        }
    }

    /// Adds a column.
    @discardableResult
    public func add(column name: String, _ type: Database.ColumnType? = nil) -> ColumnDefinition {
        let column = ColumnDefinition(name: name, type: type)
        steps.append(.add(column))
        return column
    }

    /// Adds a column by its definition as SQL.
    public func addColumn(sql: String) { addColumn(literal: SQL(sql: sql)) }

    /// Adds a column by its definition as SQL; values become SQL literals.
    public func addColumn(literal: SQL) { steps.append(.addText(literal)) }

    /// Renames a column.
    public func rename(column name: String, to newName: String) {
        let (old, new) = (name.quotedDatabaseIdentifier, newName.quotedDatabaseIdentifier)
        steps.append(.sql("RENAME COLUMN \(old) TO \(new)"))
    }

    /// Removes a column.
    public func drop(column name: String) { steps.append(.sql("DROP COLUMN \(name.quotedDatabaseIdentifier)")) }
}
