import CipherDatabase

/// A statement that the query interface can ask for: all that its text depends on. It is the key under which a
/// connection keeps the compiled statement.
enum StatementRequest: Hashable, Sendable {
    /// - Parameter singleResult: Whether only the first row will be read.
    case select(Relation, singleResult: Bool)
    case count(Relation)
    case exists(Relation)
    case delete(Relation, returning: [Selection])
    case update(Relation, [Assignment], Database.ConflictResolution?, returning: [Selection])
}
