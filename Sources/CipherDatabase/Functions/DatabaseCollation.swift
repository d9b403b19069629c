import Foundation

/// An order of texts, implemented in Swift.
///
/// ```swift
/// let byLength = DatabaseCollation("by_length") { left, right in
///     left.count == right.count ? .orderedSame : left.count < right.count ? .orderedAscending : .orderedDescending
/// }
/// config.prepareDatabase { db in db.add(collation: byLength) }
/// try db.execute(sql: "CREATE TABLE word (text TEXT COLLATE by_length)")
/// ```
///
/// The function cannot throw: SQLite has no way to report that a comparison failed. It must always be the same order,
/// in every program that shares the database, or indexes that use it are wrong. Only connections that have a collation
/// can use the tables and indexes with it.
/// - SeeAlso: <https://www.sqlite.org/c3ref/create_collation.html>
public final class DatabaseCollation: Identifiable, Sendable {
    /// The identity of a collation; SQLite ignores the case of names.
    public struct ID: Hashable, Sendable {
        /// The name, in lower case.
        let name: String
    }

    /// The name in SQL.
    public let name: String
    private let definition: CollationDefinition

    public var id: ID { ID(name: name.lowercasedASCII) }

    /// - Parameters:
    ///   - name: The name in SQL.
    ///   - function: Compares two texts.
    public init(_ name: String, function: @escaping @Sendable (String, String) -> ComparisonResult) {
        self.name = name
        definition = CollationDefinition(function)
    }

    func install(on handle: ConnectionHandle) -> ResultCode { handle.add(definition, name: name) }
    func uninstall(from handle: ConnectionHandle) -> ResultCode { handle.removeCollation(name: name) }
}

extension DatabaseCollation: Hashable {
    /// Whether both have the same name, ignoring case.
    public static func == (left: DatabaseCollation, right: DatabaseCollation) -> Bool { left.id == right.id }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension DatabaseFunction: Hashable {
    /// Whether both have the same name, ignoring case, and the same number of arguments.
    public static func == (left: DatabaseFunction, right: DatabaseFunction) -> Bool { left.id == right.id }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension String {
    /// The text with `A` to `Z` in lower case and the rest unchanged: how SQLite compares names.
    package var lowercasedASCII: String {
        // Most names have no capital letter, and then nothing is copied.
        guard utf8.contains(where: { $0 >= 65 && $0 <= 90 }) else { return self }
        return String(decoding: utf8.map { $0 >= 65 && $0 <= 90 ? $0 | 32 : $0 }, as: UTF8.self)
    }
}
