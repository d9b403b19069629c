import CipherDatabase

/// The comparison of a linking column with values of the column that it is linked to, as a join would compare both columns.
///
/// A join converts the values of both columns, by the types of both. A value alone has no type. So a comparison with a value
/// differs from the join for these pairs, and is written in another way:
///
/// | column | the other column | comparison by the join | comparison with a value |
/// |---|---|---|---|
/// | TEXT, BLOB, no type | INTEGER, NUMERIC, REAL | as numbers: '01' equals 1 | the column's texts become numbers |
/// | TEXT | BLOB, no type | without conversion: '1' differs from 1 | a number equals nothing |
/// | BLOB, no type | TEXT | without conversion: '1' equals '1' | a number becomes the text that the other column stores |
///
/// The collation is that of the column, as for the join: its left operand is the column of the table that is joined.
///
/// - SeeAlso: <https://www.sqlite.org/datatype3.html#type_conversions_prior_to_comparison>
enum LinkComparison: Hashable {
    /// `column = value` is the comparison of the join.
    case direct
    /// The texts of the column become numbers, and are compared by the collation that the column has.
    case numbers(collation: String)
    /// A number equals no value of the column.
    case withoutNumbers
    /// The other column stores numbers as texts.
    case texts

    /// - Parameters:
    ///   - column: The column that is compared with a value.
    ///   - other: The column that the value belongs to.
    init(of column: ComparedColumn, with other: ComparedColumn) {
        self = .direct
        guard let affinity = column.affinity, let otherAffinity = other.affinity else { return }
        switch (affinity, otherAffinity) {
        case (.text, .numeric), (.text, .real), (.none, .numeric), (.none, .real):
            self = .numbers(collation: column.collation ?? "BINARY")
        case (.text, .none): self = .withoutNumbers
        case (.none, .text): self = .texts
        case (.text, .text), (.none, .none), (.numeric, _), (.real, _): break
        }
    }

    /// Whether a stored value of the other column can equal a value of the column.
    func admits(_ value: DatabaseValue) -> Bool {
        guard self == .withoutNumbers else { return true }
        return switch value.storage {
        case .int64, .double: false
        case .null, .string, .blob: true
        }
    }

    /// The column as an operand of a comparison with stored values of the other one.
    ///
    /// - Parameter column: An expression that is the column alone.
    func operand(_ column: Term) -> Term {
        guard case .numbers(let collation) = self, case .node(let node) = column else { return column }
        var literal = LiteralText(SQL(sql: ""))
        for (index, text) in Self.number.enumerated() {
            if index > 0 { literal.pieces.append(.node(node)) }
            literal.pieces.append(.text(text, []))
        }
        return Term(.apply(.collate(collation), [Term(.literal(literal))]))
    }

    /// The same as SQL text.
    func operand(_ column: String) -> String {
        guard case .numbers(let collation) = self else { return column }
        return "(\(Self.number.joined(separator: column))) COLLATE \(collation.quotedDatabaseIdentifier)"
    }

    /// The SQL text before and after a value of the program, for the value that the other column stores of it; nil if both
    /// are compared alike.
    var storing: (before: String, after: String)? {
        let isNumber = "typeof(v) IN ('integer', 'real')"
        let expression: String
        switch self {
        case .direct: return nil
        case .numbers: expression = Self.number.joined(separator: "v")
        case .withoutNumbers: expression = "CASE WHEN NOT \(isNumber) THEN v END"
        case .texts: expression = "CASE WHEN \(isNumber) THEN CAST(v AS TEXT) ELSE v END"
        }
        return ("(SELECT \(expression) FROM (SELECT ", " AS v))")
    }

    /// The text around an expression that becomes a number if it is the text of one. Compared with a number, such a text is
    /// one too, and not greater than the greatest; every other text is greater than each number.
    private static let number = ["CASE WHEN CAST('9e999' AS REAL) >= ", " THEN CAST(", " AS NUMERIC) ELSE ", " END"]
}

/// The facts of a column by which SQL compares it.
struct ComparedColumn: Hashable {
    /// Nil for an expression, as of a view or a common table expression.
    var affinity: TypeAffinity?
    /// Nil for the same.
    var collation: String?
}

extension SchemaFacts {
    /// The comparison of a column of a joined table with values of the table that it is joined to.
    func comparison(of pair: Join.ColumnPair, left: String, right: String) throws -> LinkComparison {
        try LinkComparison(of: comparedColumn(pair.right, right), with: comparedColumn(pair.left, left))
    }

    /// Whether two columns may compare texts differently, so that the left one of a comparison decides.
    func mayDifferInCollation(_ pair: Join.ColumnPair, left: String, right: String) throws -> Bool {
        let collations = try [comparedColumn(pair.left, left), comparedColumn(pair.right, right)].map(\.collation)
        return collations[0] == nil || collations[0]?.lowercasedASCII != collations[1]?.lowercasedASCII
    }
}

extension Database {
    /// The facts of a column by which SQL compares it.
    func comparedColumn(_ column: String, in table: String) throws -> ComparedColumn {
        let isView = try viewExists(table)
        // A common table expression is unknown to the schema.
        guard try isView || tableExists(table) else { return ComparedColumn() }
        let collation = self.collation(ofColumn: column, in: table)
        guard let info = try columns(in: table).first(where: { $0.name.lowercasedASCII == column.lowercasedASCII })
        else {
            let isRowID = RowIDName.all.contains(column.lowercasedASCII)
            return ComparedColumn(affinity: isRowID ? .numeric : nil, collation: collation)
        }
        if isView && info.type.isEmpty { return ComparedColumn(affinity: nil, collation: collation) }
        let isStrict = try info.type.lowercasedASCII == "any" && self.isStrict(table)
        return ComparedColumn(affinity: TypeAffinity(type: info.type, isStrict: isStrict), collation: collation)
    }
}
