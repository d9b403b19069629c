import CipherDatabase

/// A kind of virtual table: what stands after `USING`.
public protocol VirtualTableModule {
    /// What a program says of a table that is created.
    associatedtype TableDefinition

    /// The name of the module in SQL.
    var moduleName: String { get }
    /// A definition that says nothing yet.
    func makeTableDefinition() -> TableDefinition
    /// The arguments of the module.
    func moduleArguments(for definition: TableDefinition, in db: Database) throws -> [String]
    /// Completes a table that was just created.
    func didCreate(table name: String, _ definition: TableDefinition, in db: Database) throws
}

/// Options of a virtual table that is created.
public struct VirtualTableOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing is done when the table exists.
    public static let ifNotExists = VirtualTableOptions(rawValue: 1)
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
        let definition = module.makeTableDefinition()
        try body?(definition)
        // The triggers of a table that exists exist too.
        if options.contains(.ifNotExists), try tableExists(name) { return }
        try inSavepoint {
            let arguments = try module.moduleArguments(for: definition, in: self)
            let list = arguments.isEmpty ? "" : "(" + arguments.joined(separator: ", ") + ")"
            try execute(
                sql: Self.creation(of: name, options) + module.moduleName + list)
            try module.didCreate(table: name, definition, in: self)
            return .commit
        }
    }

    /// Creates a virtual table of a module that takes no arguments, or whose arguments are in the name.
    public func create(virtualTable name: String, options: VirtualTableOptions = [], using module: String) throws {
        try execute(sql: Self.creation(of: name, options) + module)
    }

    private static func creation(of name: String, _ options: VirtualTableOptions) -> String {
        "CREATE VIRTUAL TABLE \(options.contains(.ifNotExists) ? "IF NOT EXISTS " : "")"
            + "\(name.quotedDatabaseIdentifier) USING "
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

    /// The column of the content table by which its rows are found.
    static func rowID(of table: String, _ db: Database) throws -> String {
        let key = try SchemaFacts(db).primaryKey(table)
        guard key.tableHasRowID else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "table \(table) has no rowid: a full-text table cannot be synchronized with it")
        }
        return key.rowIDColumn ?? "rowid"
    }

    /// A trigger, and its SQL without `CREATE TRIGGER`.
    struct Trigger {
        let suffix: String
        let event: String
        let statements: [String]
    }

    func create(_ triggers: [Trigger], _ db: Database) throws {
        for trigger in triggers {
            let name = "__\(fullTextTable)_\(trigger.suffix)".quotedDatabaseIdentifier
            let statements = trigger.statements.map { "    \($0);\n" }.joined()
            try db.execute(
                sql: "CREATE TRIGGER \(name) \(trigger.event) ON \(contentTable.quotedDatabaseIdentifier) BEGIN\n"
                    + statements + "END")
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
