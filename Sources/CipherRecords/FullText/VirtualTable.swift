import CipherDatabase

/// A kind of virtual table: what stands after `USING`.
public protocol VirtualTableModule {
    /// What a program says of a table that is created.
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

/// Keeps a full-text table the same as the table whose rows it finds, by triggers.
struct Synchronization {
    let contentTable: String
    let fullTextTable: String
    let columns: [String]
    let configuration: VirtualTableConfiguration

    /// The column that is the rowid of the content table; nil for a hidden one.
    static func rowIDColumn(of table: String, _ db: Database) throws -> String? {
        let key = try SchemaFacts(db).primaryKey(table)
        guard key.tableHasRowID else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "table \(table) has no rowid: a full-text table cannot be synchronized with it")
        }
        return key.rowIDColumn
    }

    /// A trigger, and its SQL without `CREATE TRIGGER`.
    struct Trigger {
        let suffix: String
        let event: String
        let statements: [String]
    }

    /// Creates the triggers, and fills the full-text table.
    func begin(_ triggers: [Trigger], _ db: Database) throws {
        if configuration.tableExisted {
            try requireColumns(db)
            // Triggers are gone where the content table was dropped, and the table has missed the changes since.
            if try triggers.allSatisfy({ try db.triggerExists(name(of: $0)) }) { return }
        }
        let create =
            "CREATE \(configuration.temporary ? "TEMPORARY " : "")TRIGGER "
            + (configuration.ifNotExists ? "IF NOT EXISTS " : "")
        for trigger in triggers {
            let statements = trigger.statements.map { "    \($0);\n" }.joined()
            try db.execute(
                sql: create + "\(name(of: trigger).quotedDatabaseIdentifier) \(trigger.event) ON "
                    + "\(contentTable.quotedDatabaseIdentifier) BEGIN\n" + statements + "END")
        }
        let table = fullTextTable.quotedDatabaseIdentifier
        try db.execute(sql: "INSERT INTO \(table)(\(table)) VALUES('rebuild')")
    }

    private func name(of trigger: Trigger) -> String { "__\(fullTextTable)_\(trigger.suffix)" }

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

    static func drop(_ suffixes: [String], of table: String, _ db: Database) throws {
        for suffix in suffixes {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \("__\(table)_\(suffix)".quotedDatabaseIdentifier)")
        }
    }

    /// The names of the columns, after some others.
    func names(after first: String...) -> String {
        (first + columns).map(\.quotedDatabaseIdentifier).joined(separator: ", ")
    }

    /// The values of the columns of a row.
    func values(of row: String, _ rowID: String) -> String {
        ([rowID] + columns).map { "\(row).\($0.quotedDatabaseIdentifier)" }.joined(separator: ", ")
    }
}
