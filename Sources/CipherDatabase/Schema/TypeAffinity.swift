/// The form that SQLite gives to a value before it stores the value in a column of a type, or compares it with the column.
///
/// | rule, the first that fits | affinity |
/// |---|---|
/// | the type contains INT | numeric |
/// | CHAR, CLOB or TEXT | text |
/// | BLOB, no type at all, ANY in a STRICT table | none |
/// | REAL, FLOA or DOUB | real |
/// | every other type, ANY too | numeric |
///
/// - SeeAlso: <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>,
///   <https://www.sqlite.org/stricttables.html>
package enum TypeAffinity: Hashable, Sendable {
    /// Every value stays as it is.
    case none
    case text
    /// INTEGER and NUMERIC: a column stores the same of both.
    case numeric
    case real

    /// - Parameters:
    ///   - type: The declared type of the column, in any case; empty where none is declared.
    ///   - isStrict: Whether the table is STRICT.
    package init(type: String, isStrict: Bool) {
        // SQLite compares letters of ASCII alone.
        let type = type.lowercasedASCII
        if type.contains("int") {
            self = .numeric
        } else if ["char", "clob", "text"].contains(where: type.contains) {
            self = .text
        } else if type.isEmpty || type.contains("blob") || isStrict && type == "any" {
            self = .none
        } else if ["real", "floa", "doub"].contains(where: type.contains) {
            self = .real
        } else {
            self = .numeric
        }
    }
}

extension Database {
    /// Whether a table is STRICT: there ANY stores each value as it is.
    ///
    /// - Parameter schemaName: Nil for the first schema that has the table.
    package func isStrict(_ table: String, in schemaName: String? = nil) throws -> Bool {
        let flags = try Row.fetchAll(self, sql: "SELECT schema, strict FROM pragma_table_list(?)", arguments: [table])
        // SQL finds a table in the schemas in this order.
        let schemas = schemaName.map { [$0] } ?? ["temp", "main"]
        for schema in schemas {
            if let row = flags.first(where: { ($0[0] as String).lowercasedASCII == schema.lowercasedASCII }) {
                return row[1]
            }
        }
        return schemaName == nil && flags.first.map { $0[1] as Bool } == true
    }
}
