import CipherStore
import ChangesetSync
import StorePlatform

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
        case let error as EngineError:
            self.init(
                name: error.code.rawValue, message: error.sentence, hint: Self.hint(error.code),
                exitCode: Self.exitCode(error.code))
        case let error as MemberError:
            self.init(
                name: error.rawValue, message: error.reason, hint: Self.hint(error), exitCode: Self.exitCode(error))
        case let error as RemoteAddressError:
            self.init(name: "usage", message: error.reason, hint: error.remedy, exitCode: .usage)
        case let error as RemoteFailure: self.init(of: error)
        default:
            guard let report = ServerRemote.report(error) else { return nil }
            self = report
        }
    }

    /// A call of a remote that failed: the cause decides.
    private init(of failure: RemoteFailure) {
        let cause = ErrorReport(failure.cause)
        let remote = failure.remote.withoutControls()
        self.init(
            name: cause.name == "system" || cause.name == "failed" ? "remoteFailed" : cause.name,
            message: "The remote \(remote) failed (\(failure.call)). \(cause.sentence)",
            hint: cause.hint ?? "Run the command again: it continues where it was.", exitCode: cause.exitCode)
    }

    /// An error whose text begins with its name.
    init(name: String, text: String, exitCode: ExitCode) {
        let message = text.hasPrefix(name + ": ") ? String(text.dropFirst(name.count + 2)) : text
        self.init(name: name, message: message, hint: nil, exitCode: exitCode)
    }

    private init(name: String, message: String, hint: String?, exitCode: ExitCode) {
        (self.name, self.message, self.hint, self.exitCode) = (name, message, hint, exitCode)
    }

    // MARK: What to do at the command line

    private static func hint(_ code: EngineError.Code) -> String? {
        switch code {
        case .noRepository:
            "Begin one with `cipherctl sync init --all-tables`, or join one with `cipherctl sync join --all-tables` and an "
                + "invitation."
        case .noSuchCommit, .ambiguousCommit: "The commits are listed by: cipherctl sync log"
        case .forgottenCommit: "The commits are listed by: cipherctl sync log"
        case .noSuchTable, .unsuitableTable:
            "Name a table that the program created. Tables are listed by `cipherctl sql`."
        case .notReady, .betweenSlices: "Run: cipherctl sync run"
        default: nil
        }
    }

    private static func hint(_ error: MemberError) -> String {
        switch error {
        // Not `cipherctl sync run`, which would be completed with the store of this command.
        case .invitationMissing:
            "Let the inviting device run `sync run` on its own store, and then run this command again."
        case .notAMember: "The members are listed by: cipherctl sync members"
        case .unknownInvitation: "The open invitations are listed by: cipherctl sync members"
        case .invitationAccepted: "Remove the member with: cipherctl sync members --remove MEMBER"
        case .alreadyAMember: "Exchange with: cipherctl sync run"
        default: error.remedy
        }
    }

    // MARK: Exit codes

    private static func exitCode(_ code: EngineError.Code) -> ExitCode {
        switch code {
        case .damagedStore, .unknownCommit, .notAllowed: .damagedData
        case .noSuchTable, .unsuitableTable, .nullKey, .noSuchCommit, .ambiguousCommit, .forgottenCommit,
            .temporaryTrigger, .trackedTableWritten:
            .usage
        case .notReady, .betweenSlices: .tryAgain
        case .timeExhausted, .captureDisabled, .schemaChangedInCommit, .transactionEndedInCommit, .noRepository,
            .insideTransaction, .inexactText:
            .failed
        }
    }

    private static func exitCode(_ error: MemberError) -> ExitCode {
        switch error {
        case .nameTooLong, .notAMember, .alreadyAMember, .otherRepository, .invitationExists, .unknownInvitation,
            .invitationAccepted:
            .usage
        case .notAdmin, .lastAdmin, .invitationExpired, .invitationUsed, .invitationWithdrawn, .wrongKeyOfInvitation:
            .notPermitted
        case .invitationMissing: .tryAgain
        case .notAnInvitation, .damagedInvitation: .damagedData
        case .newerInvitation: .unsupported
        }
    }
}
