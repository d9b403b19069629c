import CipherDatabase

/// A column that SQLite computes from the others of its row. No commit has a value of it, and unique keys may.
struct GeneratedColumn: Hashable, Sendable {
    let name: String
    let affinity: TypeAffinity
    /// Its expression in SQL, without parentheses around it.
    let expression: String

    /// The value that the column has, in SQL: the expression, converted by the affinity of the column.
    var value: String {
        switch affinity {
        case .none: "(\(expression))"
        case .text:
            """
            CASE WHEN typeof((\(expression))) IN ('integer', 'real') THEN CAST((\(expression)) AS TEXT)
            ELSE (\(expression)) END
            """
        // A text that is a number as a whole becomes one, as in ``KeyComparison``.
        case .numeric, .real:
            """
            CASE WHEN typeof((\(expression))) = 'text' AND CAST('9e999' AS REAL) >= (\(expression))
            THEN CAST((\(expression)) AS NUMERIC) ELSE (\(expression)) END
            """
        }
    }

    /// Reads the generated columns of a table. A column stands after those that it is computed from.
    ///
    /// - Parameter sql: The definition of the table.
    static func all(of table: String, isStrict: Bool, _ sql: String, in db: Database) throws -> [GeneratedColumn] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, type FROM pragma_table_xinfo(?, 'main') WHERE hidden > 1 ORDER BY cid",
            arguments: [table])
        if rows.isEmpty { return [] }
        let expressions = GeneratedScanner(sql).expressions
        guard expressions.count == rows.count else { return [] }
        let columns = zip(rows, expressions).map { row, expression in
            GeneratedColumn(
                name: row[0], affinity: TypeAffinity(type: (row[1] as String).uppercased(), isStrict: isStrict),
                expression: expression)
        }
        return sorted(columns)
    }

    private static func sorted(_ columns: [GeneratedColumn]) -> [GeneratedColumn] {
        var (sorted, rest) = ([GeneratedColumn](), columns)
        while !rest.isEmpty {
            let names = Set(rest.map { $0.name.lowercased() })
            // SQLite refuses columns that depend on each other; only a function with the name of one looks so.
            let next =
                rest.firstIndex { column in
                    GeneratedScanner.names(in: column.expression).intersection(names)
                        .isSubset(of: [column.name.lowercased()])
                } ?? 0
            sorted.append(rest.remove(at: next))
        }
        return sorted
    }
}

extension TableDefinition {
    /// A query of one row that has the given values, one parameter for each column, as a row of the table: with generated
    /// columns and the names of a row id that is the key.
    ///
    /// The first SELECT of each step has no rows: it gives the columns the affinities and collations of the table.
    var givenRow: String {
        let known = Set(columns.map { $0.name.lowercased() } + generated.map { $0.name.lowercased() })
        let rowIDs = isRowID ? ["rowid", "_rowid_", "oid"].filter { !known.contains($0) } : []
        var names = columns.map(\.name.quotedDatabaseIdentifier)
        var first = names + rowIDs.map { "\($0) AS \($0)" }
        let places = columns.indices.map { "?\($0 + 1)" } + rowIDs.map { _ in "?\(keyColumns[0] + 1)" }
        names += rowIDs
        func step(_ row: String) -> String {
            "SELECT \(first.joined(separator: ", ")) FROM \(qualifiedName) WHERE 0 UNION ALL SELECT \(row)"
        }
        var sql = step(places.joined(separator: ", "))
        for column in generated {
            let row = (names + [column.value]).joined(separator: ", ")
            names.append(column.name.quotedDatabaseIdentifier)
            first.append(column.name.quotedDatabaseIdentifier)
            sql = step("\(row) FROM (\(sql)) AS \(name.quotedDatabaseIdentifier)")
        }
        return sql
    }
}

/// Finds the expressions of generated columns in the text of a table's definition, in the order of the columns.
///
/// Outside of parentheses the word AS is in no other part of a column's definition.
struct GeneratedScanner {
    private(set) var expressions: [String] = []

    /// - Parameter sql: A statement CREATE TABLE.
    init(_ sql: String) {
        var (depth, rest) = (0, Substring(sql))
        var (isAfterAs, expression) = (false, String?.none)
        while !rest.isEmpty {
            let piece = IndexScanner.takePiece(&rest)
            if piece == ")" { depth -= 1 }
            if depth == 1, let found = expression {
                expressions.append(found)
                expression = nil
            } else {
                expression?.append(piece)
            }
            if piece == "(" {
                if depth == 1, isAfterAs { expression = "" }
                depth += 1
            }
            if !piece.allSatisfy(\.isWhitespace) { isAfterAs = depth == 1 && piece.lowercased() == "as" }
        }
    }

    /// The words of an expression, in lower case and without quotes: names of columns, and others.
    static func names(in expression: String) -> Set<String> {
        var (names, rest) = (Set<String>(), Substring(expression))
        while !rest.isEmpty {
            let piece = IndexScanner.takePiece(&rest).lowercased()
            if let first = piece.first, "\"`[".contains(first) {
                names.insert(String(piece.dropFirst().dropLast()))
            } else {
                names.insert(piece)
            }
        }
        return names
    }
}
