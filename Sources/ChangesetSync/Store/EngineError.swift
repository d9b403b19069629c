/// Why the engine cannot do what it was asked. It never contains a value of a row.
public struct EngineError: Error, Hashable, Sendable {
    public enum Code: String, CaseIterable, Hashable, Sendable {
        /// The tables of the engine contradict each other.
        case damagedStore
        /// The store has no table of this name.
        case noSuchTable
        /// A table cannot be tracked.
        case unsuitableTable
        /// A row of a tracked table has no key.
        case nullKey
        /// A commit names a commit that its context does not have.
        case unknownCommit
        /// A commit removes a member, and its author is no admin.
        case notAllowed
        /// The commit was not fetched, or it is not ready.
        case notReady
        /// The store is between two slices of a join.
        case betweenSlices
        /// No later time exists.
        case timeExhausted
        /// The block of a commit has switched off what reports its writes.
        case captureDisabled
        /// The block of a commit has changed the definition of a tracked table.
        case schemaChangedInCommit
        /// The block of a commit has ended its transaction.
        case transactionEndedInCommit
        /// A tracked table has a temporary trigger of the program.
        case temporaryTrigger
        /// The block after a pull has written a tracked table.
        case trackedTableWritten
        /// The store has no such commit, or has not joined it.
        case noSuchCommit
        /// A snapshot stands for the commit: what it has changed is forgotten here.
        case forgottenCommit
        /// Several commits have names that begin with the given digits.
        case ambiguousCommit
        /// The store has no repository.
        case noRepository
        /// A call that begins a transaction was made inside one.
        case insideTransaction
        /// A text of a database in UTF-16 has no equal in UTF-8.
        case inexactText

        /// Whether no honest member makes such a commit.
        var isOfInvalidCommit: Bool { self == .unknownCommit || self == .notAllowed }
    }

    public let code: Code
    /// A name of a table, or nothing.
    public let detail: String

    package init(_ code: Code, _ detail: String = "") {
        self.code = code
        self.detail = detail
    }
}

extension EngineError: CustomStringConvertible {
    public var description: String { "sync: \(reason)\(detail.isEmpty ? "" : " \(detail)")" }

    /// The reason and what to do, after the name of the table.
    package var sentence: String { detail.isEmpty ? reason : "Table \"\(detail)\": \(reason)" }

    private var reason: String {
        switch code {
        case .damagedStore: "The tables of the repository contradict each other. Restore the store from a backup."
        case .noSuchTable: "The store has no such table. Give the name of a table that is there."
        case .unsuitableTable: "The table cannot be tracked. Give it a primary key, or leave it out."
        case .nullKey: "A row has NULL in its primary key. Declare the key NOT NULL."
        case .unknownCommit: "A commit names a commit that its context does not have. Its author wrote it wrongly."
        case .notAllowed: "A commit removes a member, and its author is no admin. Remove the author from the members."
        case .notReady: "The commit waits for others. Fetch them, and join it then."
        case .betweenSlices: "A join has begun and has not ended. Join its other slices first."
        case .captureDisabled:
            "The block of a commit has set recursive_triggers, which the commit needs. Set it outside of commits."
        case .schemaChangedInCommit:
            "The block of a commit has changed the definition of a tracked table. Change it outside of commits."
        case .transactionEndedInCommit:
            "The block of a commit has ended its transaction. Leave its end to the commit."
        case .temporaryTrigger:
            "A tracked table has a temporary trigger, which could hide writes. Create the trigger in the main database."
        case .trackedTableWritten:
            "The block after a pull has written a tracked table. Let it write tables that are not tracked."
        case .inexactText:
            "A text has half of a surrogate pair, which other stores cannot have. Correct the text."
        case .noSuchCommit: "The store has not joined such a commit. Pull, or give the name of a commit of the log."
        case .forgottenCommit:
            "A snapshot stands for the commit, so its changes are forgotten. Name a later commit."
        case .ambiguousCommit: "Several commits have names that begin so. Give more digits."
        case .noRepository: "The store has no repository. Begin one, or join one by an invitation."
        case .insideTransaction: "The call begins a transaction, and it was made inside one. Call it outside."
        case .timeExhausted: "The latest time is used up. Set the clocks of all devices right."
        }
    }
}
