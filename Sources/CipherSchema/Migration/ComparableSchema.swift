import CipherDatabase

/// The tables, views, indexes and triggers of a database in a form in which two schemas with the same meaning are
/// equal.
///
/// Data is erased where they differ, so a difference must be one of meaning. A definition that is not understood is
/// compared token by token.
struct ComparableSchema: Equatable {
    private enum Definition: Hashable {
        case table(ComparableTable)
        case index(Index)
        case text(String)
        /// Created by SQLite itself.
        case none
    }

    private struct Index: Hashable {
        let isUnique: Bool
        /// With collation and direction, if any.
        let items: [String]
        let condition: String

        /// Whether it lists these columns, in this order.
        func indexes(_ columns: [String]) -> Bool { items == columns.map { "\"\($0)\"" } }

        /// Whether it only speeds up queries, and lists nothing but columns.
        func isPlain(in table: ComparableTable) -> Bool {
            !isUnique && condition.isEmpty
                && items.allSatisfy { item in table.columns.contains { "\"\($0.name)\"" == item } }
        }
    }

    private struct Object: Hashable {
        let type: String
        let name: String
        let tableName: String
        let definition: Definition
    }

    private let objects: Set<Object>

    init(_ db: Database) throws {
        // The definition of a virtual table determines its shadow tables, as far as they depend on the migrations.
        self.init(try SchemaObject.ofUser(db).filter { !$0.isShadow })
    }

    init(_ schemaObjects: [SchemaObject]) {
        var tables: [String: ComparableTable] = [:]
        for object in schemaObjects where object.type == "table" && !object.isVirtual {
            if let table = try? object.sql.map(ComparableTable.init(sql:)) {
                tables[object.name.lowercasedASCII] = table
            }
        }
        let keyColumns = tables.mapValues(\.keyColumns)
        for name in tables.keys { tables[name]?.resolveForeignKeys { keyColumns[$0] } }
        objects = Set(schemaObjects.compactMap { Self.comparable($0, tables[$0.tableName.lowercasedASCII]) })
    }

    /// - Parameter table: The table of the object, or the object itself, where its definition is understood.
    /// - Returns: Nil for an object without effect.
    private static func comparable(_ object: SchemaObject, _ table: ComparableTable?) -> Object? {
        var name = object.name.lowercasedASCII
        let definition: Definition
        if object.type == "table", let table {
            definition = .table(table)
        } else if let sql = object.sql {
            definition = self.definition(sql, type: object.type, table)
        } else {
            definition = .none
        }
        // An index that is named after its table and columns. The prefix was missing before where a reference had
        // several columns, and a reference that was UNIQUE got an index beside the one that it has anyway.
        if case .index(let index) = definition, let table, index.isPlain(in: table), name.contains("_on_") {
            if table.uniqueKeys.contains(where: { index.indexes($0.columns) }) { return nil }
            if name.hasPrefix("index_") { name.removeFirst("index_".count) }
        }
        return Object(
            type: object.type, name: name, tableName: object.tableName.lowercasedASCII, definition: definition)
    }

    // MARK: All but tables

    private static func definition(_ sql: String, type: String, _ table: ComparableTable?) -> Definition {
        let tokens = SQLToken.tokens(of: sql)
        do {
            var reader = DefinitionReader(tokens)
            try reader.require("create")
            _ = reader.skip("temp") || reader.skip("temporary")
            switch type {
            case "index": return .index(try index(&reader, table?.namesInExpressions))
            case "trigger": return .text(try trigger(&reader))
            default: return .text(try viewOrVirtualTable(&reader))
            }
        } catch {
            return .text(tokens.normalized())
        }
    }

    private static func index(_ reader: inout DefinitionReader, _ columns: Set<String>?) throws -> Index {
        let isUnique = reader.skip("unique")
        try reader.require("index")
        _ = reader.skip("if", "not", "exists")
        _ = try reader.takeQualifiedName()
        try reader.require("on")
        _ = try reader.takeName()
        let items = try reader.takeParentheses().splitAtCommas().map { item in
            var item = item
            // Ascending is the default.
            if item.last?.isWord("asc") == true { item.removeLast() }
            // A string alone is the name of a column.
            if let first = item.first, first.kind == .string, item.count == 1 || item[1].isWord("collate") {
                item[0] = first.as(.bracketedName)
            }
            return item.normalized(columns: columns)
        }
        let condition = reader.skip("where") ? reader.takeRest().normalized(columns: columns) : ""
        guard reader.takeRest().isEmpty else { throw DefinitionReader.Unknown() }
        return Index(isUnique: isUnique, items: items, condition: condition)
    }

    private static func trigger(_ reader: inout DefinitionReader) throws -> String {
        try reader.require("trigger")
        _ = reader.skip("if", "not", "exists")
        _ = try reader.takeQualifiedName()
        var tokens: [SQLToken] = []
        while !reader.isAtEnd {
            // There is no other kind.
            if !reader.skip("for", "each", "row") { tokens.append(try reader.take()) }
        }
        if tokens.last?.isSymbol(";") == true { tokens.removeLast() }
        return tokens.normalized()
    }

    private static func viewOrVirtualTable(_ reader: inout DefinitionReader) throws -> String {
        let kind = reader.skip("virtual", "table") ? "virtual table" : "view"
        if kind == "view" { try reader.require("view") }
        _ = reader.skip("if", "not", "exists")
        _ = try reader.takeQualifiedName()
        return kind + " " + reader.takeRest().normalized()
    }
}
