/// The state of a feature for one connection, such as the history of changes or the capture of a sync.
///
/// A feature has one object for each connection that uses it, in a slot (``FeatureSlot``) that only its type can open
/// (``FeatureKey``). The connection calls the object at the moments for which it has asked, and at no other ones. All
/// functions are called on the thread of the access.
package protocol ConnectionFeature: AnyObject {
    /// ``FeatureMoments/willRun`` and ``FeatureMoments/watch``: a statement is about to run. An error refuses it.
    func willRun(_ statement: Statement, on db: Database) throws

    /// ``FeatureMoments/willChangeSchema``: a statement that changes the schema of a file is about to run. An error
    /// refuses it.
    func willChangeSchema(_ statement: Statement, on db: Database) throws

    /// ``FeatureMoments/willVacuum``: VACUUM is about to run. An error refuses it.
    func willVacuum(on db: Database) throws

    /// ``FeatureMoments/didChangeSchema``: a statement has changed the schema, or rebuilt the database. Statements may
    /// not run.
    ///
    /// - Parameter isForeign: Whether C code has compiled the statement, and most likely run it.
    func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database)

    /// ``FeatureMoments/didRun``: a statement has run, and what followed from it is done.
    func didRun(on db: Database) throws

    /// ``FeatureMoments/didFail``: a statement has failed, and what followed from it is done.
    func didFail(_ statement: Statement, on db: Database)

    /// ``FeatureMoments/didCommit`` and ``FeatureMoments/didRollBack``: SQLite ends a transaction. Statements may not
    /// run.
    func transactionDidEnd(isCommit: Bool, on db: Database)

    /// ``FeatureMoments/didNotCompile``: a statement does not compile. Called inside of a call into SQLite: only
    /// ``Database/runWithoutAccess(_:)`` may be used.
    ///
    /// - Returns: Whether the feature has removed the reason, so that the statement is compiled again.
    func didNotCompile(because message: String, on db: Database) -> Bool

    /// ``FeatureMoments/close``: the connection is about to be closed. Compiled statements must be finalized.
    func willClose(_ db: Database)
}

extension ConnectionFeature {
    package func willRun(_ statement: Statement, on db: Database) throws {}
    package func willChangeSchema(_ statement: Statement, on db: Database) throws {}
    package func willVacuum(on db: Database) throws {}
    package func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database) {}
    package func didRun(on db: Database) throws {}
    package func didFail(_ statement: Statement, on db: Database) {}
    package func transactionDidEnd(isCommit: Bool, on db: Database) {}
    package func didNotCompile(because message: String, on db: Database) -> Bool { false }
    package func willClose(_ db: Database) {}
}

/// The moments of a connection for which a feature may ask.
package struct FeatureMoments: OptionSet, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Before each statement.
    package static let willRun = FeatureMoments(rawValue: 1)
    /// Before each statement, except those that the library runs for its own purposes
    /// (``Database/withoutWatching(_:)``).
    package static let watch = FeatureMoments(rawValue: 2)
    /// Before each statement that changes the schema of a file.
    package static let willChangeSchema = FeatureMoments(rawValue: 4)
    /// Before VACUUM.
    package static let willVacuum = FeatureMoments(rawValue: 8)
    /// After each statement that has changed a schema, or rebuilt the database.
    package static let didChangeSchema = FeatureMoments(rawValue: 16)
    /// After each statement that ran to its end.
    package static let didRun = FeatureMoments(rawValue: 32)
    /// After each statement that failed.
    package static let didFail = FeatureMoments(rawValue: 64)
    /// At the commit of each transaction that has written.
    package static let didCommit = FeatureMoments(rawValue: 128)
    /// At the rollback of each transaction.
    package static let didRollBack = FeatureMoments(rawValue: 256)
    /// When a statement does not compile.
    package static let didNotCompile = FeatureMoments(rawValue: 512)
    /// Before the connection is closed.
    package static let close = FeatureMoments(rawValue: 1024)

    /// For which SQLite's commit and rollback hooks are installed.
    static let transactionEnd: FeatureMoments = [.didCommit, .didRollBack]

    /// The moments before a statement with these effects.
    init(before effects: StatementEffects) {
        self = [.willRun, .watch]
        if effects.contains(.storedSchema) { insert(.willChangeSchema) }
        if effects.contains(.vacuum) { insert(.willVacuum) }
    }
}
