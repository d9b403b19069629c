/// One of the databases that a connection sees.
/// - SeeAlso: <https://www.sqlite.org/lang_naming.html>
public enum DatabaseSchemaID: Hashable, Sendable {
    /// The file, or the database in memory, that was opened.
    case main
    /// The connection's own temporary objects.
    case temp
    /// A database that was attached under a name.
    case attached(String)

    init(name: String) {
        switch name.lowercasedASCII {
        case "main": self = .main
        case "temp": self = .temp
        default: self = .attached(name)
        }
    }

    /// The name in SQL, without quotes.
    public var name: String {
        switch self {
        case .main: "main"
        case .temp: "temp"
        case .attached(let name): name
        }
    }

    /// The name of the table that lists the objects of this schema: `sqlite_master` or `sqlite_temp_master`.
    public var schemaTableName: String {
        switch self {
        case .temp: "sqlite_temp_master"
        case .main, .attached: "sqlite_master"
        }
    }

    /// The table that lists the objects of this schema, as SQL.
    var schemaTable: String { "\(name.quotedDatabaseIdentifier).sqlite_schema" }
}

/// Identifies a table or a view, even if another schema has one of the same name.
public struct DatabaseObjectID: Hashable, Sendable {
    public var schemaID: DatabaseSchemaID
    public var name: String

    public init(schemaID: DatabaseSchemaID, name: String) {
        self.schemaID = schemaID
        self.name = name
    }

    public init(name: String, schemaID: DatabaseSchemaID) { self.init(schemaID: schemaID, name: name) }
}

extension DatabaseError {
    package static func noSuchTable(_ name: String) -> DatabaseError {
        DatabaseError(message: "no such table: \(name)")
    }
    static func noSuchSchema(_ name: String) -> DatabaseError { DatabaseError(message: "no such schema: \(name)") }
}
