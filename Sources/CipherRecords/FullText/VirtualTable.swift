import CipherDatabase
import CipherSchema

/// A kind of virtual table: what stands after `USING`.
public protocol VirtualTableModule {
    /// The definition of a table that a program creates.
    associatedtype TableDefinition

    /// The name of the module in SQL.
    var moduleName: String { get }
    /// A definition that says nothing yet.
    func makeTableDefinition(configuration: VirtualTableConfiguration) -> TableDefinition
    /// The arguments of the module.
    func moduleArguments(for definition: TableDefinition, in db: Database) throws -> [String]
    /// Completes a table that was just created.
    func database(_ db: Database, didCreate tableName: String, using definition: TableDefinition) throws
}

/// How a virtual table is created.
public struct VirtualTableConfiguration: Sendable {
    /// Whether what exists already is left as it is.
    public let ifNotExists: Bool
    /// Whether the table is created in the temporary database.
    public let temporary: Bool
    /// Whether the table existed already.
    let tableExisted: Bool
}

/// Options of a virtual table that is created.
public struct VirtualTableOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The table is created unless it exists.
    public static let ifNotExists = VirtualTableOptions(rawValue: 1)
    /// The table is created in the temporary database: only this connection has it, until it is closed.
    public static let temporary = VirtualTableOptions(rawValue: 2)
}

extension Database {
    /// Creates a virtual table.
    ///
    /// ```swift
    /// try db.create(virtualTable: "document", using: FTS5()) { t in
    ///     t.tokenizer = .unicode61()
    ///     t.column("content")
    /// }
    /// ```
    ///
    /// All of it or nothing is done.
    /// - SeeAlso: <https://www.sqlite.org/lang_createvtab.html>
    public func create<Module: VirtualTableModule>(
        virtualTable name: String, options: VirtualTableOptions = [], using module: Module,
        _ body: ((Module.TableDefinition) throws -> Void)? = nil
    ) throws {
        let ifNotExists = options.contains(.ifNotExists)
        let temporary = options.contains(.temporary)
        let exists = try ifNotExists && tableExists(name, in: temporary ? "temp" : nil)
        let definition = module.makeTableDefinition(
            configuration: VirtualTableConfiguration(
                ifNotExists: ifNotExists, temporary: temporary, tableExisted: exists))
        try body?(definition)
        try inSavepoint {
            let arguments = try module.moduleArguments(for: definition, in: self)
            let list = arguments.isEmpty ? "" : "(" + arguments.joined(separator: ", ") + ")"
            try execute(sql: Self.creation(of: name, options) + module.moduleName + list)
            try module.database(self, didCreate: name, using: definition)
            return .commit
        }
    }

    /// Creates a virtual table of a module that takes no arguments, or whose arguments are in the name.
    public func create(virtualTable name: String, options: VirtualTableOptions = [], using module: String) throws {
        try execute(sql: Self.creation(of: name, options) + module)
    }

    /// Creates a virtual table: an older form of `create(virtualTable:options:using:_:)`.
    @_disfavoredOverload
    public func create<Module: VirtualTableModule>(
        virtualTable name: String, ifNotExists: Bool = false, using module: Module,
        _ body: ((Module.TableDefinition) throws -> Void)? = nil
    ) throws {
        try create(virtualTable: name, options: ifNotExists ? .ifNotExists : [], using: module, body)
    }

    /// Creates a virtual table: an older form of `create(virtualTable:options:using:)`.
    @_disfavoredOverload
    public func create(virtualTable name: String, ifNotExists: Bool = false, using module: String) throws {
        try create(virtualTable: name, options: ifNotExists ? .ifNotExists : [], using: module)
    }

    private static func creation(of name: String, _ options: VirtualTableOptions) -> String {
        "CREATE VIRTUAL TABLE \(options.contains(.ifNotExists) ? "IF NOT EXISTS " : "")"
            + "\(options.contains(.temporary) ? "temp." : "")\(name.quotedDatabaseIdentifier) USING "
    }
}

/// The rules of quoting in the arguments of full-text modules, which are no SQL.
enum ModuleArgument {
    /// A column: bare where that is a name.
    static func column(_ name: String) -> String {
        let isPlain = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), 128...:
                true
            default: false
            }
        }
        return isPlain && name.first?.isNumber == false ? name : name.quotedDatabaseIdentifier
    }

    /// A text in single quotes.
    static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "''") + "'" }
}

/// Keeps a full-text table the same as the table whose rows it finds, by triggers: see `DisplacedRows`.
struct Synchronization {
    let contentTable: String
    let fullTextTable: String
    let columns: [String]
    let configuration: VirtualTableConfiguration

    /// The name by which the rows of a content table are found, in the triggers and by the full-text table.
    ///
    /// - Throws: ``DatabaseError`` for a table without a rowid, or whose columns hide all of its names.
    static func rowIDName(of table: String, _ db: Database) throws -> String {
        guard try SchemaFacts(db).primaryKey(table).tableHasRowID else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "table \(table) has no rowid: a full-text table cannot be synchronized with it")
        }
        guard let name = try db.rowIDName(of: table) else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "columns of table \(table) hide its rowid: a full-text table cannot be synchronized with it")
        }
        return name
    }

    /// Creates the triggers, and fills the full-text table.
    func begin(_ db: Database) throws {
        let schema = configuration.temporary ? "temp" : "main"
        let existing = try FullTextIndex.all(in: schema, db).first {
            $0.name.lowercasedASCII == fullTextTable.lowercasedASCII
        }
        if configuration.tableExisted { try requireColumns(db) }
        let rowID = try Self.rowIDName(of: contentTable, db)
        let rows = existing.flatMap {
            DisplacedRows($0, rowID: rowID, columns: columns, isTemporary: configuration.temporary)
        }
        guard let rows, rows.content.lowercasedASCII == contentTable.lowercasedASCII else {
            throw DatabaseError(
                message: "table \(fullTextTable) exists and has not \(contentTable) as its content: drop it first")
        }
        // Triggers are gone where the content table was dropped, and the table has missed the changes since.
        guard try rows.create(db) || !configuration.tableExisted else { return }
        let table = fullTextTable.quotedDatabaseIdentifier
        try db.execute(sql: "INSERT INTO \(table)(\(table)) VALUES('rebuild')")
    }

    /// Triggers that name a column which an existing table lacks would make each change of the content table fail.
    private func requireColumns(_ db: Database) throws {
        // The column of the language is hidden.
        let names = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [fullTextTable])
        let existing = Set(names.map(\.lowercasedASCII))
        for column in columns where !existing.contains(column.lowercasedASCII) {
            throw DatabaseError(
                resultCode: .SQLITE_ERROR,
                message: "table \(fullTextTable) exists without the column \(column): drop it and its triggers first")
        }
    }
}
