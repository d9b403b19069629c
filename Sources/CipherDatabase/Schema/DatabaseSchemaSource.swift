/// Tells what SQLite cannot know of a schema.
///
/// Views have no primary key of their own. A source that names one lets records be read from a view by their key.
public protocol DatabaseSchemaSource: Sendable {
    /// The columns that tell the rows of a view apart.
    ///
    /// - Returns: nil when this source has nothing to say of the view; no columns when the view has no key.
    func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]?
}

extension DatabaseSchemaSource {
    public func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? { nil }

    /// A source that asks this one first, and the other one where this one has nothing to say.
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
    /// Runs a block while another schema source is in force; nil for none.
    ///
    /// Migrations run without a schema source, so that they go on meaning the same; one that needs a source names it
    /// so.
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
