/// Why the engine cannot do what it was asked. It never contains a value of a row.
package struct EngineError: Error, Hashable, Sendable {
    package enum Code: Hashable, Sendable {
        /// The tables of the engine contradict each other.
        case damagedStore
        /// A table cannot be tracked.
        case unsuitableTable
        /// A row of a tracked table has no key.
        case nullKey
        /// A commit names a commit that its context does not have.
        case unknownCommit
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
        /// A text of a database in UTF-16 has no equal in UTF-8.
        case inexactText
    }

    package let code: Code
    package let detail: String

    package init(_ code: Code, _ detail: String = "") {
        self.code = code
        self.detail = detail
    }
}

extension EngineError: CustomStringConvertible {
    package var description: String { "sync: \(reason)\(detail.isEmpty ? "" : " \(detail)")" }

    private var reason: String {
        switch code {
        case .damagedStore: "The tables of the repository contradict each other. Restore the store from a backup."
        case .unsuitableTable: "The table cannot be tracked. Give it a primary key, or leave it out."
        case .nullKey: "A row has NULL in its primary key. Declare the key NOT NULL."
        case .unknownCommit: "A commit names a commit that its context does not have. Its author wrote it wrongly."
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
        case .inexactText:
            "A text has half of a surrogate pair, which other stores cannot have. Correct the text."
        case .timeExhausted: "The latest time is used up. Set the clocks of all devices right."
        }
    }
}
