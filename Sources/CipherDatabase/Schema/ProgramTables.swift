/// The tables of the main database that belong to the program and have rows of their own: those that a tool takes which is
/// to take all.
package struct ProgramTables {
    /// No views, virtual tables or shadow tables; in the order of their names.
    package let names: [String]
    /// Tables that are perhaps shadow tables of modules that this connection does not know. They are in no list of all
    /// tables: rows that are written there without the module damage what the module keeps.
    package let leftOut: [LeftOut]

    /// A table that is perhaps a shadow table.
    package struct LeftOut: Hashable {
        package let name: String
        /// The virtual table to which it belongs by its name.
        let virtualTable: String
        /// The module that this connection does not know.
        let module: String

        package var reason: String {
            "\"\(name)\" is left out: by its name it belongs to the virtual table \"\(virtualTable)\", and the module "
                + "\"\(module)\" is not registered"
        }
    }

    /// - SeeAlso: <https://www.sqlite.org/vtab.html#the_xshadowname_method>
    package init(_ db: Database) throws {
        let tables = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
        ).filter { name in
            !Database.isSQLiteInternalTable(name) && !Database.isStoreInternalObject(name)
                && !Database.isGRDBInternalTable(name)
        }
        let owners = try Self.unknownVirtualTables(db)
        // SQLite asks the module for its tables. Without the module the name tells: the virtual table's with a suffix.
        leftOut = tables.compactMap { name in
            let owner = owners.first { name.lowercasedASCII.hasPrefix($0.name.lowercasedASCII + "_") }
            return owner.map { LeftOut(name: name, virtualTable: $0.name, module: $0.module) }
        }
        let hidden = Set(leftOut.map(\.name))
        names = tables.filter { !hidden.contains($0) }
    }

    private static func unknownVirtualTables(_ db: Database) throws -> [(name: String, module: String)] {
        let entries = try Row.fetchAll(
            db,
            sql: "SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0 AND sql IS NOT NULL")
        if entries.isEmpty { return [] }
        let known = try Set(String.fetchAll(db, sql: "SELECT name FROM pragma_module_list").map(\.lowercasedASCII))
        return entries.compactMap { row in
            guard let module = module(ofDefinition: row[1]), !known.contains(module) else { return nil }
            return (row[0], module)
        }
    }

    /// The module of a `CREATE VIRTUAL TABLE` statement, in lower case; nil for any other text.
    static func module(ofDefinition sql: String) -> String? {
        var reader = DefinitionReader(sql)
        guard reader.skip("create", "virtual", "table") else { return nil }
        _ = reader.skip("if", "not", "exists")
        guard (try? reader.takeQualifiedName()) != nil, reader.skip("using") else { return nil }
        return try? reader.takeName()
    }
}
