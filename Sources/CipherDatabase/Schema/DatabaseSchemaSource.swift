/// Describes what SQLite cannot know of a schema.
///
/// Views have no primary key of their own. A source that names one lets records be read from a view by their key.
public protocol DatabaseSchemaSource: Sendable {
    /// The columns that identify the rows of a view.
    ///
    /// - Returns: nil when this source does not know the view; no columns when the view has no key.
    func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]?
}

extension DatabaseSchemaSource {
    public func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? { nil }

    /// A source that asks this source first, and `other` if this source does not know the view.
    public func then(_ other: some DatabaseSchemaSource) -> some DatabaseSchemaSource {
        ChainedSchemaSource(first: self, second: other)
    }
}

private struct ChainedSchemaSource<First: DatabaseSchemaSource, Second: DatabaseSchemaSource>: DatabaseSchemaSource {
    let first: First
    let second: Second

    func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? {
        try first.columnsForPrimaryKey(db, inView: view) ?? second.columnsForPrimaryKey(db, inView: view)
    }
}

extension Database {
    /// Runs a block with another schema source; nil for none.
    ///
    /// Migrations run without a schema source, so that their meaning does not change; one that needs a source sets it
    /// with this function.
    public func withSchemaSource<T>(
        _ schemaSource: (any DatabaseSchemaSource)?, execute block: () throws -> T
    ) rethrows -> T {
        let outer = self.schemaSource
        self.schemaSource = schemaSource
        schemaCache.clear()
        defer {
            self.schemaSource = outer
            schemaCache.clear()
        }
        return try block()
    }
}
