/// A table that is being changed: what ``Database/alter(table:body:)`` hands to its closure.
/// - SeeAlso: <https://www.sqlite.org/lang_altertable.html>
public final class TableAlteration {
    private enum Step {
        case add(ColumnDefinition)
        case sql(String)
    }

    private let name: String
    private var steps: [Step] = []

    init(name: String) { self.name = name }

    /// The statements, in order.
    var statements: [String] {
        let table = "ALTER TABLE \(name.quotedDatabaseIdentifier) "
        return steps.flatMap { step -> [String] in
            switch step {
            case .sql(let sql): [table + sql]
            case .add(let column) where column.needsIndex:
                [table + "ADD COLUMN \(column.sql)", IndexDefinition(on: name, column: column.name).sql]
            case .add(let column): [table + "ADD COLUMN \(column.sql)"]
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
    public func addColumn(sql: String) { steps.append(.sql("ADD COLUMN \(sql)")) }

    /// Adds a column by its definition as SQL.
    public func addColumn(literal: SQL) throws { addColumn(sql: try literal.definition()) }

    /// Renames a column.
    public func rename(column name: String, to newName: String) {
        let (old, new) = (name.quotedDatabaseIdentifier, newName.quotedDatabaseIdentifier)
        steps.append(.sql("RENAME COLUMN \(old) TO \(new)"))
    }

    /// Removes a column.
    public func drop(column name: String) { steps.append(.sql("DROP COLUMN \(name.quotedDatabaseIdentifier)")) }
}
