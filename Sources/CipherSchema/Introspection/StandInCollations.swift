import CipherDatabase
import Foundation
import Synchronization

/// Stands in for collations that only the program has, so that SQLite compiles statements which read an index from its
/// first entry to its last. Such statements compare no texts.
///
/// A comparison would have a wrong result: it is remembered, and the reading fails.
package final class StandInCollations: Sendable {
    private let collations: [DatabaseCollation]
    private let wasAsked: SharedFlag

    private final class SharedFlag: Sendable {
        let value = Mutex(false)
    }

    /// - Parameter names: Collations that the connection does not have.
    private init(_ names: Set<String>) {
        let flag = SharedFlag()
        wasAsked = flag
        collations = names.sorted().map { name in
            DatabaseCollation(name) { _, _ in
                flag.value.withLock { $0 = true }
                return .orderedSame
            }
        }
    }

    /// Runs a closure on a connection that has the stand-ins.
    ///
    /// - Throws: The errors of `body`; `DatabaseError` where SQLite compared texts by a stand-in.
    package static func with<Value>(
        _ names: Set<String>, on db: Database, _ body: () throws -> Value
    ) throws -> Value {
        guard !names.isEmpty else { return try body() }
        let standIns = StandInCollations(names)
        for collation in standIns.collations { db.add(collation: collation) }
        try readSchemaAgain(db)
        defer {
            for collation in standIns.collations { db.removeIfIdle(collation: collation) }
            // An error shows in the next statement.
            try? readSchemaAgain(db)
        }
        let value = try body()
        guard standIns.wasAsked.value.withLock({ !$0 }) else {
            throw DatabaseError(
                resultCode: .SQLITE_ERROR,
                message: "no such collation sequence: \(names.sorted().joined(separator: ", "))")
        }
        return value
    }

    /// SQLite scans no index whose collation it did not have when it read the schema ("no query solution").
    private static func readSchemaAgain(_ db: Database) throws {
        let before = db.mayChangeStoreTables
        db.mayChangeStoreTables = true
        defer { db.mayChangeStoreTables = before }
        try db.execute(sql: "PRAGMA writable_schema = RESET")
    }
}

extension DatabaseCollation {
    /// An order in which each text comes after all that are in the index, for entries that are inserted in their order.
    ///
    /// SQLite compares the text of the index with the new one, in this order of the arguments.
    package static let afterAll = DatabaseCollation("cipherstore_after_all") { _, _ in .orderedAscending }

    /// The same for a descending column of an index, of which SQLite inverts the result.
    package static let beforeAll = DatabaseCollation("cipherstore_before_all") { _, _ in .orderedDescending }
}
