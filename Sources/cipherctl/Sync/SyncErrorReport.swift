import ChangesetSync
import CipherStore

/// The errors of synchronization, as commands report them.
struct SyncErrorReport {
    /// A stable name for programs.
    let name: String
    /// The event and its cause.
    let message: String
    let hint: String?
    let exitCode: ExitCode

    /// - Returns: nil for an error of something else.
    init?(_ error: any Error) {
        switch error {
        case let error as SyncError: self.init(of: error)
        case let error as InvitationError:
            self.init(
                name: error.code == .wrongKey ? "invitationKey" : error.code.rawValue, message: error.reason,
                hint: error.remedy, exitCode: Self.exitCode(error.code))
        case let error as RemoteAddressError:
            self.init(name: "usage", message: error.reason, hint: error.remedy, exitCode: .usage)
        case let error as RemoteError:
            let text = "\(error)"
            self.init(
                name: String(text.prefix { $0 != ":" }), text: text, hint: Self.hint(error),
                exitCode: Self.exitCode(error))
        case let error as SyncFailure:
            guard let first = SyncErrorReport(error.first) else { return nil }
            self.init(
                name: first.name, message: first.message + " The push failed as well: \(error.push)", hint: first.hint,
                exitCode: first.exitCode)
        default:
            guard let report = ServerRemote.report(error) else { return nil }
            self = report
        }
    }

    init(of error: SyncError) {
        self.init(
            name: "\(error.code)", message: Self.message(of: error), hint: Self.hint(error.code),
            exitCode: Self.exitCode(error.code))
    }

    /// An error whose text begins with its name and ends with what to do.
    init(name: String, text: String, hint: String? = nil, exitCode: ExitCode) {
        let message = text.hasPrefix(name + ": ") ? String(text.dropFirst(name.count + 2)) : text
        self.init(name: name, message: message, hint: hint, exitCode: exitCode)
    }

    private init(name: String, message: String, hint: String?, exitCode: ExitCode) {
        (self.name, self.message, self.hint, self.exitCode) = (name, message, hint, exitCode)
    }

    /// The message with what to do.
    var sentences: String { hint.map { "\(message) \($0)" } ?? message }

    /// The text of an error that the library has kept, with what to do at the command line in the place of calls in Swift.
    static func text(ofKept text: String) -> String {
        SyncError.Code.allCases.reduce(text.replacing(": call reset()", with: "")) { text, code in
            text.replacing(code.remedy, with: hint(code))
        }
    }

    private static func message(of error: SyncError) -> String {
        let table = error.table.map { "Table \"\($0)\": " } ?? ""
        let commit = error.commit.map { " The commit is \($0)." } ?? ""
        // Without the call in Swift that it may name.
        let detail = error.detail.map { " " + $0.replacing(": call reset()", with: "") } ?? ""
        return table + error.code.reason + detail + commit
    }

    private static func hint(_ error: RemoteError) -> String? {
        guard case .remoteRewound = error else { return nil }
        return "If it is the right remote, let each device push again what it lacks: cipherctl sync reset"
    }

    /// The remedy at the command line.
    static func hint(_ code: SyncError.Code) -> String {
        switch code {
        case .notEnabled:
            "Set it up with `cipherctl sync init --all-tables`, or with `cipherctl sync join --all-tables` and an "
                + "invitation."
        case .foreignWrites:
            "Take them into a commit with: cipherctl sync commit. The rows as they are here now replace those on all "
                + "devices; rows that are gone here are deleted there."
        case .needsMerge, .olderSchema: "Merge, and pull again: cipherctl sync merge"
        case .unknownCommit: "The commits are listed by: cipherctl sync log"
        case .isMerge:
            "Nothing was changed. `cipherctl sync log` shows its two parents: name the one that stays with --keep, and the "
                + "work of the other side is undone. Or revert the commits of that side."
        case .notPulled: "Take it up first: cipherctl sync run"
        case .unsuitableTable: "Name a table that the program created. Tables are listed by `cipherctl sql`."
        case .missingPart: "Nothing was changed. Let the program that has them track the table, or name other tables."
        case .tableMissing: "Nothing was changed. Rename it back, or create it again, with: cipherctl sql"
        case .workingStateDiverged, .digestMismatch:
            "Nothing was changed. Rows may have been written outside of commits (cipherctl sync commit), or a new column may "
                + "have another default here than on other devices."
        case .columnRemoved: "Add the column again with: cipherctl sql"
        case .damagedRepository: "Restore the store from a backup, or join the repository with a new store."
        case .baseTooOld: "Nothing is lost. Take up the checkpoint, and keep what was not pushed: cipherctl sync rejoin"
        case .checkpointPending: "Run it again, or cipherctl sync pull."
        case .unknownReplica: "They are listed by: cipherctl sync status"
        case .changedLater:
            "Nothing was changed. Find the later commit with `cipherctl sync log` and `cipherctl sync diff`, and revert it "
                + "first. Or write the rows as you want them with `cipherctl sql --write`, and make a commit of them: "
                + "cipherctl sync commit"
        case .collision: "Where the store was restored from a backup, or copied: cipherctl sync reset"
        case .databaseError:
            "Nothing was changed. The program that registers a missing function or collation can pull; a full disk needs "
                + "room. Then pull again: cipherctl sync pull"
        default: code.remedy
        }
    }

    private static func exitCode(_ code: SyncError.Code) -> ExitCode {
        switch code {
        case .foreignWrites, .needsMerge, .notPulled, .schemaAhead, .columnRemoved, .olderSchema, .foreignKeyViolation,
            .baseTooOld,
            .constraintViolation, .inexactText, .tableMissing:
            .needsAttention
        case .checkpointPending: .tryAgain
        case .missingPart: .unsupported
        case .noPrimaryKey, .nullKey, .unsuitableTable, .applicationTemporaryTrigger, .unknownCommit, .isMerge,
            .otherRepository, .unknownReplica, .checkpointUnsupported:
            .usage
        case .workingStateDiverged, .changedLater, .digestMismatch, .damagedCommit, .damagedRepository, .collision:
            .damagedData
        default: .failed
        }
    }

    private static func exitCode(_ code: InvitationError.Code) -> ExitCode {
        switch code {
        case .notAnInvitation, .truncated, .damaged: .damagedData
        case .newerVersion: .unsupported
        case .wrongKey: .notPermitted
        case .alreadyExists, .otherEpoch: .usage
        }
    }

    private static func exitCode(_ error: RemoteError) -> ExitCode {
        switch error {
        case .remoteRewound, .foreignEntry: .damagedData
        case .otherRepository: .usage
        case .unknownVersion, .unsupportedFilesystem: .unsupported
        case .unavailable(_, let error): ExitCode(error)
        case .payloadTooLarge, .invalidPosition: .failed
        }
    }
}
