/// The tables, views, indexes and triggers of a database, so that two schemas are equal when they say the same.
///
/// Data is erased where they differ, so a difference must be one of meaning. A definition that is not understood is
/// compared token by token.
struct ComparableSchema: Equatable {
    private enum Definition: Hashable {
        case table(ComparableTable)
        case text(String)
        /// Of SQLite's own making.
        case none
    }

    private struct Object: Hashable {
        let type: String
        let name: String
        let tableName: String
        let definition: Definition
    }

    private let objects: Set<Object>

    init(_ db: Database) throws {
        // The definition of a virtual table says what its shadow tables are, as far as they depend on the migrations.
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
        objects = Set(
            schemaObjects.map { object in
                let name = object.name.lowercasedASCII
                let definition: Definition
                if let table = tables[name], object.type == "table" {
                    definition = .table(table)
                } else if let sql = object.sql {
                    let columns = tables[object.tableName.lowercasedASCII].map { Set($0.columns.map(\.name)) }
                    definition = .text(Self.normalized(sql, type: object.type, columns: columns))
                } else {
                    definition = .none
                }
                return Object(
                    type: object.type, name: name, tableName: object.tableName.lowercasedASCII, definition: definition)
            })
    }

    // MARK: All but tables

    private static func normalized(_ sql: String, type: String, columns: Set<String>?) -> String {
        let tokens = SQLToken.tokens(of: sql)
        do {
            var reader = DefinitionReader(tokens)
            try reader.require("create")
            _ = reader.skip("temp") || reader.skip("temporary")
            switch type {
            case "index": return try index(&reader, columns)
            case "trigger": return try trigger(&reader)
            default: return try viewOrVirtualTable(&reader)
            }
        } catch {
            return tokens.normalized()
        }
    }

    private static func index(_ reader: inout DefinitionReader, _ columns: Set<String>?) throws -> String {
        let kind = reader.skip("unique") ? "unique index" : "index"
        try reader.require("index")
        _ = reader.skip("if", "not", "exists")
        _ = try reader.takeQualifiedName()
        try reader.require("on")
        let table = try reader.takeName()
        let items = try reader.takeParentheses().splitAtCommas().map { item in
            // Ascending is the default.
            (item.last?.isWord("asc") == true ? Array(item.dropLast()) : item).normalized(columns: columns)
        }
        let condition = reader.skip("where") ? reader.takeRest().normalized(columns: columns) : ""
        guard reader.takeRest().isEmpty else { throw DefinitionReader.Unknown() }
        return "\(kind) \(table) (\(items.joined(separator: ", "))) \(condition)"
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
