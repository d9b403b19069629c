import CipherDatabase

/// Why a repository refused something. Nothing was changed then.
public struct SyncError: Error, Hashable, Sendable {
    /// The kinds of errors.
    public enum Code: String, CaseIterable, Hashable, Sendable {
        /// The repository was not enabled, or its tables were not made.
        case notEnabled
        /// A table has no primary key that is declared, so its rows have no identity on other devices.
        case noPrimaryKey
        /// A row has NULL in its primary key.
        case nullKey
        /// A view, a virtual or shadow table, or an internal one cannot be tracked; or there is no such table.
        case unsuitableTable
        /// A table that the repository tracks is gone: it was dropped or renamed.
        case tableMissing
        /// The program has a temporary trigger on a tracked table.
        case applicationTemporaryTrigger
        /// A commit was begun inside a transaction of the program.
        case insideTransaction
        /// A block changed the definition of a tracked table.
        case schemaChangedInCommit
        /// A block has turned off what records the rows that it writes.
        case captureDisabled
        /// A block has ended the transaction of its commit.
        case transactionEndedInCommit
        /// Rows of tracked tables were written outside of commits.
        case foreignWrites
        /// The block after a pull wrote a tracked table.
        case trackedTableWritten
        /// A row of a tracked table is not what the commits say.
        case workingStateDiverged
        /// A commit cannot be undone, because rows that came later stand against it.
        case changedLater
        /// A merge cannot be undone without a word which of its parents stays.
        case isMerge
        /// The rows of this store do not have a commit yet.
        case notPulled
        /// The digest of a table is not the one that a commit names.
        case digestMismatch
        /// Rows would refer to rows that do not exist.
        case foreignKeyViolation
        /// A row does not satisfy a constraint that a table has in this store.
        case constraintViolation
        /// A text is not one that SQLite converts between UTF-8 and UTF-16 without a change, as one with half of a surrogate
        /// pair. The detail names the column.
        case inexactText
        /// There are several leaves, or the head's work is in none of them.
        case needsMerge
        /// A commit was made with a schema that this store does not have yet.
        case schemaAhead
        /// This store has removed a column that a commit has.
        case columnRemoved
        /// Both commits of a merge were made with another schema than this store has, and it could take them up.
        case olderSchema
        /// There is no such commit.
        case unknownCommit
        /// A commit or its delta cannot be read.
        case damagedCommit
        /// A resolver returned what no row of the table can be.
        case resolverFailed
        /// A commit or a description is too long.
        case payloadTooLarge
        /// The remote has another object under an identifier, or another entry at a place of this replica's log.
        case collision
        /// The store belongs to another repository.
        case otherRepository
        /// A checkpoint that this store does not have has replaced the history at the remote.
        case baseTooOld
        /// A checkpoint is being made, or its rows are still to be pulled.
        case checkpointPending
        /// The remote cannot keep checkpoints.
        case checkpointUnsupported
        /// There is no such replica.
        case unknownReplica
        /// A state of the repository that cannot be.
        case damagedRepository
        /// SQLite could not run a statement of a pull or a merge. ``SyncError/resultCode`` has its code.
        case databaseError
        /// A block of the program that a pull or a merge runs has thrown an error of its own.
        case programError
        /// The table, or one that it refers to, needs a function or a collation that only the program has.
        case missingPart
    }

    public let code: Code
    /// The table, where the error is about one.
    public let table: String?
    /// The commit, where the error is about one.
    public let commit: CommitID?
    /// What is known beyond the code, as a sentence. It never contains a value of a row.
    public let detail: String?
    /// SQLite's extended code, where an error of the database is the cause: of ``Code/databaseError``, and of
    /// ``Code/constraintViolation`` unless the type of a column is the reason.
    public let resultCode: ResultCode?

    init(
        _ code: Code, table: String? = nil, commit: CommitID? = nil, _ detail: String? = nil,
        resultCode: ResultCode? = nil
    ) {
        self.code = code
        self.table = table
        self.commit = commit
        self.detail = detail
        self.resultCode = resultCode
    }
}

extension SyncError {
    /// The constraints of which all devices should have the same. What is wrong with a unique value or a key is found by
    /// those who write the row.
    private static let constraints: [ResultCode: String] = [
        .SQLITE_CONSTRAINT_CHECK: "CHECK", .SQLITE_CONSTRAINT_NOTNULL: "NOT NULL",
        .SQLITE_CONSTRAINT_DATATYPE: "of a STRICT type", .SQLITE_MISMATCH: "of an integer key",
    ]

    /// The error where a table of this store does not admit a row; nil for another error.
    init?(_ error: DatabaseError, writing table: TrackedTable) {
        guard let kind = Self.constraints[error.extendedResultCode] else { return nil }
        // SQLite's text names the constraint or the column, and no value.
        let message = error.message.map { " (\($0))" } ?? ""
        self.init(
            .constraintViolation, table: table.name, "The constraint is \(kind)\(message).",
            resultCode: error.extendedResultCode)
    }
}

extension SyncError {
    /// The codes of SQLite for a row whose key or unique value another row has.
    static let takenValues: Set<ResultCode> = [
        .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID,
    ]

    /// The error where a row has a unique value that another row has. Merges leave no two rows that are equal by a key of
    /// all devices.
    init(takenValue error: DatabaseError, in table: TrackedTable) {
        let message = error.message.map { " (\($0))" } ?? ""
        self.init(
            .constraintViolation, table: table.name,
            "The constraint is UNIQUE\(message), or a key that is compared otherwise than on other devices.",
            resultCode: error.extendedResultCode)
    }

    /// The error where a side of a merge has rows that are equal by a key of this store.
    init(equalRowsIn table: TrackedTable) {
        self.init(
            .constraintViolation, table: table.name,
            "The constraint is UNIQUE, or a key that is compared otherwise: another device has rows that are equal here.",
            resultCode: .SQLITE_CONSTRAINT_UNIQUE)
    }

    /// Whether a unique value of a row is taken by another one.
    var isTakenValue: Bool { code == .constraintViolation && resultCode.map(Self.takenValues.contains) == true }
}

extension SyncError: CustomStringConvertible {
    public var description: String {
        var subject = ""
        if let table { subject += " of table \"\(table)\"" }
        if let commit { subject += " (commit \(commit))" }
        let detail = detail.map { " " + $0 } ?? ""
        return "\(code)\(subject): \(code.reason)\(detail) \(code.remedy)"
    }
}

extension SyncError.Code {
    package var reason: String {
        switch self {
        case .notEnabled: "The repository is not set up in this store."
        case .noPrimaryKey: "It has no primary key, so a row has no identity on other devices."
        case .nullKey: "A row has NULL in its primary key, so it has no identity on other devices."
        case .unsuitableTable: "It is no table with rows of its own."
        case .tableMissing: "It is tracked by the repository, and it is gone: it was dropped or renamed."
        case .applicationTemporaryTrigger: "A temporary trigger of the program is on it; what it writes may be missed."
        case .insideTransaction: "The connection is inside a transaction of the program."
        case .transactionEndedInCommit: "The block of a commit has ended its transaction."
        case .captureDisabled: "The block has turned off the recording of rows that a REPLACE removes."
        case .schemaChangedInCommit: "The block changed the definition of a tracked table."
        case .foreignWrites: "Rows were written outside of commits."
        case .trackedTableWritten: "The block after a pull wrote a tracked table."
        case .workingStateDiverged: "A row is not what the commits say."
        case .changedLater: "A later commit has changed the same rows."
        case .isMerge: "It is a merge of two commits."
        case .notPulled: "The rows of this store do not have it yet."
        case .digestMismatch: "The rows are not those that the commit describes."
        case .foreignKeyViolation: "A row would refer to one that does not exist."
        case .constraintViolation: "A row of a commit does not satisfy a constraint of the table in this store."
        case .inexactText:
            "A text cannot be converted between UTF-8 and UTF-16 without a change: it has half of a surrogate pair, or no "
                + "valid characters."
        case .needsMerge: "The head's work is not in the one leaf of the graph."
        case .schemaAhead: "It was made with a schema that this store does not have."
        case .columnRemoved: "It was made with a column that this store has removed."
        case .olderSchema: "Both commits were made with an older schema than this store has."
        case .unknownCommit: "There is no such commit in this store."
        case .damagedCommit: "It cannot be read."
        case .resolverFailed: "The resolver returned what no row of the table can be."
        case .payloadTooLarge: "It is too long."
        case .collision: "The remote has something else under the same name."
        case .otherRepository: "The store belongs to another repository."
        case .baseTooOld: "A checkpoint that this store does not have has replaced the history at the remote."
        case .checkpointPending: "A checkpoint is being made, or its rows are not all here."
        case .checkpointUnsupported: "The remote cannot keep checkpoints."
        case .unknownReplica: "There is no such replica."
        case .damagedRepository: "The tables of the repository contradict each other."
        case .databaseError: "SQLite could not run a statement."
        case .programError: "A block of the program has thrown an error."
        case .missingPart: "It needs what only the program has."
        }
    }

    package var remedy: String {
        switch self {
        case .notEnabled: "Call migrate() and enable(_:)."
        case .noPrimaryKey: "Declare one; for new rows choose UUIDs."
        case .nullKey: "Declare its columns NOT NULL, and give the row a key."
        case .unsuitableTable: "Name a table that the program created."
        case .tableMissing: "Nothing was changed. Rename it back, or create it again."
        case .applicationTemporaryTrigger: "Drop the trigger, or make it a trigger of the database."
        case .insideTransaction: "Call it outside of transactions: it begins its own."
        case .transactionEndedInCommit:
            "Leave that to `commit`: it begins and ends the transaction. Nothing was changed."
        case .captureDisabled: "Nothing was changed. Leave PRAGMA recursive_triggers on."
        case .schemaChangedInCommit: "Nothing was committed. Migrate outside of commits."
        case .foreignWrites: "Take them into a commit with commitForeignWrites(meta:)."
        case .trackedTableWritten: "Nothing was changed. Let it write other tables only."
        case .workingStateDiverged, .digestMismatch:
            "Nothing was changed. Call verify() to see which tables differ, and reset() to read all rows again. A new column "
                + "must have the same default on all devices."
        case .changedLater:
            "Nothing was changed. Revert the later commit first, or make a commit with the rows as you want them."
        case .isMerge: "Nothing was changed. Name the parent that stays, or revert the commits of the other side."
        case .notPulled: "Call sync(), or mergeAll() and pull()."
        case .foreignKeyViolation: "Nothing was changed. Let the author of the commit repair the row."
        case .constraintViolation:
            "Nothing was changed. Give the table the constraints that it has on the other devices; then pull again."
        case .inexactText:
            "Nothing was changed. Let the author of the row write a text of whole Unicode characters, or a blob; then commit "
                + "and pull again."
        case .needsMerge: "Call mergeAll(), then pull()."
        case .schemaAhead: "Update the program, so that its migrations run; then pull again."
        case .columnRemoved: "Add the column again, push, and call reset() to read all rows again."
        case .olderSchema: "Call mergeAll(), which makes a commit with the schema of this store before."
        case .unknownCommit: "Fetch, and look at log()."
        case .damagedCommit: "Fetch it again."
        case .resolverFailed: "Nothing was merged. Correct the resolver."
        case .payloadTooLarge: "Divide the change into several commits."
        case .collision: "The store may be a copy of another one, or the remote is not to be trusted."
        case .otherRepository: "Join the repository with an empty store."
        case .baseTooOld: "Nothing is lost. Call rejoin(): it takes up the checkpoint and keeps the work of this store."
        case .checkpointPending: "Call sync() again, or pull()."
        case .checkpointUnsupported: "Use a remote that can: a folder, or a PostgreSQL server."
        case .unknownReplica: "See the replicas of status()."
        case .damagedRepository: "Restore the store from a backup, or call reset()."
        case .databaseError:
            "Nothing was changed. Remove the cause: register a missing function or collation in prepareDatabase, or make "
                + "room on the disk. Then pull again."
        case .programError: "Nothing was changed. Correct the block; then pull again."
        case .missingPart: "Nothing was changed. Add what is missing in Configuration.prepareDatabase, then try again."
        }
    }
}
