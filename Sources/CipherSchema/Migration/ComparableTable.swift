import CipherDatabase

/// The meaning of a `CREATE TABLE` statement, independent of its spelling: constraints count wherever they are written,
/// and those without effect do not count.
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html>
struct ComparableTable: Hashable {
    struct Column: Hashable {
        let name: String
        /// In lower case; empty where none is declared.
        var type = ""
        /// The conflict resolution of NOT NULL; nil where NULL is allowed.
        var notNull: String?
        var defaultValue: String?
        var collation: String?
        var generation: String?
    }

    struct PrimaryKey: Hashable {
        /// With collation and direction, if any.
        var columns: [String]
        var names: [String]
        var conflict: String
        var isAutoincremented = false
        /// `INTEGER PRIMARY KEY DESC` after a column is not the rowid; the same as a constraint of the table is.
        var isDescendingColumn = false
    }

    struct UniqueKey: Hashable {
        let columns: [String]
        let conflict: String
    }

    struct ForeignKey: Hashable {
        let columns: [String]
        let table: String
        /// Nil for the primary key of the table, until that is known.
        var destination: [String]?
        var onDelete = "no action"
        var onUpdate = "no action"
        var isDeferred = false
    }

    let name: String
    fileprivate(set) var columns: [Column] = []
    fileprivate(set) var primaryKey: PrimaryKey?
    /// Sorted, as the following: their order has no meaning.
    fileprivate(set) var uniqueKeys: [UniqueKey] = []
    fileprivate(set) var foreignKeys: [ForeignKey] = []
    fileprivate(set) var checks: [String] = []
    fileprivate(set) var isWithoutRowID = false
    fileprivate(set) var isStrict = false

    /// The references of foreign keys that name no column of this table.
    var keyColumns: [String] { primaryKey?.names ?? ["rowid"] }

    /// The possible meanings of a name in double quotes in an expression of the table, in lower case.
    var namesInExpressions: Set<String> { namesInExpressions(columns.map(\.name)) }

    private func namesInExpressions(_ columns: [String]) -> Set<String> {
        // https://www.sqlite.org/lang_createtable.html#rowids_and_the_integer_primary_key
        Set(columns.map(\.lowercasedASCII)).union(isWithoutRowID ? [] : RowIDName.all)
    }

    /// - Throws: ``DefinitionReader/Unknown`` for text that is not understood.
    init(sql: String) throws {
        var reader = DefinitionReader(sql)
        try reader.require("create")
        _ = reader.skip("temp") || reader.skip("temporary")
        try reader.require("table")
        _ = reader.skip("if", "not", "exists")
        name = try reader.takeQualifiedName()
        let items = try reader.takeParentheses().splitAtCommas()
        try readOptions(&reader)
        // Every column first: checks and generated columns distinguish names from text by them.
        let names = namesInExpressions(items.compactMap { Self.isConstraint($0) ? nil : $0.first?.name })
        for item in items {
            var itemReader = DefinitionReader(item)
            if Self.isConstraint(item) {
                try readConstraint(&itemReader, names)
            } else {
                try readColumn(&itemReader, names)
            }
        }
        normalize()
    }

    /// Resolves the columns to which foreign keys without columns refer.
    mutating func resolveForeignKeys(_ keyColumns: (_ table: String) -> [String]?) {
        for index in foreignKeys.indices where foreignKeys[index].destination == nil {
            foreignKeys[index].destination = keyColumns(foreignKeys[index].table)
        }
        foreignKeys.sort { "\($0)" < "\($1)" }
    }

    private mutating func readOptions(_ reader: inout DefinitionReader) throws {
        while !reader.isAtEnd {
            if reader.skip("without", "rowid") {
                isWithoutRowID = true
            } else if reader.skip("strict") {
                isStrict = true
            } else if !reader.skip(symbol: ","), !reader.skip(symbol: ";") {
                throw DefinitionReader.Unknown()
            }
        }
    }

    /// Removes what has no effect.
    private mutating func normalize() {
        if let key = primaryKey {
            let type = columns.first { $0.name == key.names.first }?.type
            let isRowID = key.names.count == 1 && type == "integer" && !isWithoutRowID && !key.isDescendingColumn
            for index in columns.indices where key.names.contains(columns[index].name) {
                // A rowid is never NULL, and NULL gives it the next number. Keys of these tables are NOT NULL anyway.
                let isImplied = isRowID || isWithoutRowID || isStrict
                if isImplied && columns[index].notNull == "abort" { columns[index].notNull = nil }
            }
            if isRowID { primaryKey?.columns = key.names }
        }
        uniqueKeys.sort { "\($0)" < "\($1)" }
        checks.sort()
    }
}

// MARK: Columns

extension ComparableTable {
    private mutating func readColumn(_ reader: inout DefinitionReader, _ names: Set<String>) throws {
        var column = Column(name: try reader.takeName())
        column.type = try Self.readType(&reader)
        while !reader.isAtEnd {
            if reader.skip("constraint") {
                _ = try reader.takeName()
            } else {
                try readColumnConstraint(&reader, &column, names)
            }
        }
        columns.append(column)
    }

    private static let columnWords: Set<String> = [
        "constraint", "primary", "not", "null", "unique", "check", "default", "collate", "references", "generated",
        "as", "deferrable",
    ]

    private static func readType(_ reader: inout DefinitionReader) throws -> String {
        var words: [String] = []
        while let token = reader.next {
            if token.isSymbol("(") {
                words.append("(" + (try reader.takeParentheses()).normalized() + ")")
            } else if token.kind == .word && columnWords.contains(token.text.lowercasedASCII) {
                break
            } else {
                words.append(try reader.takeName())
            }
        }
        return words.joined(separator: " ")
    }

    private mutating func readColumnConstraint(
        _ reader: inout DefinitionReader, _ column: inout Column, _ names: Set<String>
    ) throws {
        if reader.skip("primary", "key") {
            let isDescending = reader.skip("desc")
            _ = !isDescending && reader.skip("asc")
            try setPrimaryKey(
                PrimaryKey(
                    columns: [column.name + (isDescending ? " desc" : "")], names: [column.name],
                    conflict: Self.readConflict(&reader), isAutoincremented: reader.skip("autoincrement"),
                    isDescendingColumn: isDescending))
        } else if reader.skip("not", "null") {
            column.notNull = try Self.readConflict(&reader)
        } else if reader.skip("null") {
            _ = try Self.readConflict(&reader)
        } else if reader.skip("unique") {
            uniqueKeys.append(UniqueKey(columns: [column.name], conflict: try Self.readConflict(&reader)))
        } else if reader.skip("check") {
            checks.append(try reader.takeParentheses().normalized(columns: names))
            _ = try Self.readConflict(&reader)
        } else if reader.skip("default") {
            column.defaultValue = try Self.readDefault(&reader)
        } else if reader.skip("collate") {
            column.collation = try reader.takeName()
        } else if reader.isNext("references") {
            foreignKeys.append(try Self.readReference(&reader, columns: [column.name]))
        } else if reader.skip("generated", "always", "as") || reader.skip("as") {
            let expression = try reader.takeParentheses().normalized(columns: names)
            let isStored = reader.skip("stored")
            _ = !isStored && reader.skip("virtual")
            column.generation = (isStored ? "stored " : "virtual ") + expression
        } else if let isDeferred = Self.readDeferral(&reader) {
            // SQLite applies it to the last reference of the table, whatever is between.
            if let last = foreignKeys.indices.last { foreignKeys[last].isDeferred = isDeferred }
        } else {
            throw DefinitionReader.Unknown()
        }
    }

    /// A default value. A name that is not a keyword is text here, in whatever quotes.
    private static func readDefault(_ reader: inout DefinitionReader) throws -> String {
        guard let token = reader.next else { throw DefinitionReader.Unknown() }
        if token.isSymbol("(") { return try reader.takeParentheses().normalized(columns: []) }
        var sign = ""
        if reader.skip(symbol: "-") { sign = "- " } else { _ = reader.skip(symbol: "+") }
        let value = try reader.take()
        let isKeyword = ["null", "true", "false", "current_time", "current_date", "current_timestamp"]
            .contains { value.isWord($0) }
        if value.name != nil && !isKeyword {
            return [value.as(.string)].normalized()
        }
        return sign + [value].normalized()
    }

    /// Whether a clause defers a foreign key; nil where there is no such clause.
    private static func readDeferral(_ reader: inout DefinitionReader) -> Bool? {
        let isExcluded = reader.skip("not", "deferrable")
        guard isExcluded || reader.skip("deferrable") else { return nil }
        let isDeferred = reader.skip("initially", "deferred")
        _ = !isDeferred && reader.skip("initially", "immediate")
        return isDeferred && !isExcluded
    }
}

// MARK: Constraints

extension ComparableTable {
    private static func isConstraint(_ item: [SQLToken]) -> Bool {
        guard let first = item.first, first.kind == .word else { return false }
        return ["constraint", "primary", "unique", "check", "foreign"].contains(first.text.lowercasedASCII)
    }

    /// Reads a constraint of the table, and those after it: SQLite accepts them without commas too.
    private mutating func readConstraint(_ reader: inout DefinitionReader, _ names: Set<String>) throws {
        repeat {
            if reader.skip("constraint") {
                _ = try reader.takeName()
            } else if reader.skip("primary", "key") {
                var key = try Self.readKey(&reader)
                key.conflict = try Self.readConflict(&reader)
                try setPrimaryKey(key)
            } else if reader.skip("unique") {
                let columns = try Self.readKey(&reader).columns
                uniqueKeys.append(UniqueKey(columns: columns, conflict: try Self.readConflict(&reader)))
            } else if reader.skip("check") {
                checks.append(try reader.takeParentheses().normalized(columns: names))
                _ = try Self.readConflict(&reader)
            } else {
                try reader.require("foreign", "key")
                let columns = try Self.readNames(&reader)
                foreignKeys.append(try Self.readReference(&reader, columns: columns))
            }
        } while !reader.isAtEnd
    }

    private mutating func setPrimaryKey(_ key: PrimaryKey) throws {
        if primaryKey != nil { throw DefinitionReader.Unknown() }
        primaryKey = key
    }

    /// Columns of a key, each perhaps with collation and direction.
    private static func readKey(_ reader: inout DefinitionReader) throws -> PrimaryKey {
        var key = PrimaryKey(columns: [], names: [], conflict: "abort")
        var items = try reader.takeParentheses().splitAtCommas()
        if let last = items.indices.last, items[last].last?.isWord("autoincrement") == true {
            items[last].removeLast()
            key.isAutoincremented = true
        }
        for item in items {
            var itemReader = DefinitionReader(item)
            let name = try itemReader.takeName()
            var column = name
            if itemReader.skip("collate") { column += " collate \(try itemReader.takeName())" }
            if itemReader.skip("desc") { column += " desc" } else { _ = itemReader.skip("asc") }
            guard itemReader.isAtEnd else { throw DefinitionReader.Unknown() }
            key.names.append(name)
            key.columns.append(column)
        }
        return key
    }

    private static func readNames(_ reader: inout DefinitionReader) throws -> [String] {
        try reader.takeParentheses().splitAtCommas().map { item in
            var itemReader = DefinitionReader(item)
            let name = try itemReader.takeName()
            guard itemReader.isAtEnd else { throw DefinitionReader.Unknown() }
            return name
        }
    }

    private static func readReference(_ reader: inout DefinitionReader, columns: [String]) throws -> ForeignKey {
        try reader.require("references")
        var key = ForeignKey(columns: columns, table: try reader.takeName())
        if reader.next?.isSymbol("(") == true { key.destination = try readNames(&reader) }
        while true {
            if reader.skip("on", "delete") {
                key.onDelete = try readAction(&reader)
            } else if reader.skip("on", "update") {
                key.onUpdate = try readAction(&reader)
            } else if reader.skip("match") {
                // SQLite reads it and ignores it.
                _ = try reader.takeName()
            } else if let isDeferred = readDeferral(&reader) {
                key.isDeferred = isDeferred
            } else {
                return key
            }
        }
    }

    private static func readAction(_ reader: inout DefinitionReader) throws -> String {
        for words in [["set", "null"], ["set", "default"], ["no", "action"]] where reader.isNext(words[0], words[1]) {
            try reader.require(words[0], words[1])
            return words.joined(separator: " ")
        }
        for word in ["cascade", "restrict"] where reader.skip(word) { return word }
        throw DefinitionReader.Unknown()
    }

    private static func readConflict(_ reader: inout DefinitionReader) throws -> String {
        reader.skip("on", "conflict") ? try reader.takeName() : "abort"
    }
}
