// Names that programs for GRDB 5 have.

/// A statement that reads: another name of ``Statement``.
public typealias SelectStatement = Statement

/// A statement that writes: another name of ``Statement``.
public typealias UpdateStatement = Statement

/// SQL with its values: another name of ``SQL``.
public typealias SQLLiteral = SQL

extension Database {
    /// Another name of ``makeStatement(sql:)``.
    public func makeSelectStatement(sql: String) throws -> Statement { try makeStatement(sql: sql) }

    /// Another name of ``makeStatement(sql:)``.
    public func makeUpdateStatement(sql: String) throws -> Statement { try makeStatement(sql: sql) }

    /// Another name of ``cachedStatement(sql:)``.
    public func cachedSelectStatement(sql: String) throws -> Statement { try cachedStatement(sql: sql) }

    /// Another name of ``cachedStatement(sql:)``.
    public func cachedUpdateStatement(sql: String) throws -> Statement { try cachedStatement(sql: sql) }
}
