/// Refuses statements of the program that give a table the name of one of the library's own.
final class OwnNames: ConnectionFeature {
    static let key = FeatureKey<OwnNames>(.ownNames)

    /// Adds it to a connection that has just been opened.
    static func add(to db: Database) { db.features.add(OwnNames(), for: key, at: .willChangeSchema) }

    func willChangeSchema(_ statement: Statement, on db: Database) throws {
        if db.connectionKey.isKeyed, !db.mayChangeStoreTables { try Self.requireOwnName(statement.sql) }
    }

    /// Refuses to give a table the name of one of the library's own: SQLite reports no new name to the authorizer.
    private static func requireOwnName(_ sql: String) throws {
        var reader = DefinitionReader(sql)
        guard reader.skip("alter", "table"), (try? reader.takeQualifiedName()) != nil, reader.skip("rename", "to"),
            let name = try? reader.takeName(), StoreTables.protects(name)
        else { return }
        throw DatabaseError(
            resultCode: .SQLITE_AUTH,
            message: "\(name) is the name of a table of the store: give the table another name", sql: sql)
    }
}

extension Statement {
    /// The table, in lower case, of a statement that alters one; nil for another statement.
    package var alteredTable: (name: String, dropsColumn: Bool)? {
        var reader = DefinitionReader(sql)
        guard reader.skip("alter", "table"), let name = try? reader.takeQualifiedName() else { return nil }
        return (name, reader.skip("drop"))
    }
}

extension String {
    /// An SQL condition: the expression, which this is, begins with a text. Programs may replace `LIKE` and `GLOB`.
    ///
    /// - Parameter prefix: ASCII without quotes.
    func sqlBegins(with prefix: String) -> String {
        var next = Array(prefix.utf8)
        if let last = next.popLast() { next.append(last + 1) }
        return "\(self) >= '\(prefix)' AND \(self) < '\(String(decoding: next, as: UTF8.self))'"
    }
}
