import CipherStore
import Foundation
import StoreCrypto
import StorePlatform
import StoreTools

/// An error as the program prints it: what happened, why, and a remedy.
struct ErrorReport {
    /// A stable name for programs: `wrongKey`, `sqlite`, `system`, `usage`.
    let name: String
    /// The event and its cause.
    let message: String
    /// The remedy, with commands as they can be typed.
    var hint: String? { hint(for: nil) }
    let exitCode: ExitCode
    /// The hint as it was written, with commands that lack their operands.
    private let remedy: String?
    private var members: [JSON.Member] = []

    init(_ error: any Error) {
        exitCode = ExitCode(error)
        switch RepositoryPlace.failure(of: error) ?? error {
        case let error as CommandFailure:
            let sentences = [error.what, error.why].filter { !$0.isEmpty }
            (name, message, remedy) = (error.name, sentences.joined(separator: " "), error.hint)
        case let error as ToolError:
            (name, message, remedy) = (error.stableName, ToolError.explanation(of: error), error.remedy)
        case let error as UsageError:
            (name, message, remedy) = ("usage", error.message, error.hint)
        case let error as StoreError:
            (name, message, remedy) = (
                error.code.name, "\(error.what) \(error.why)", Self.withoutSwiftCalls(error.remedy)
            )
            if case .pageDamaged(let page) = error.code { add("page", .int(page)) }
        case let error as DatabaseError:
            (name, message, remedy) = (
                "sqlite", Self.withoutSwiftCalls(error.description), Self.hint(for: error)
            )
            add("sqlite_code", .int(error.resultCode.rawValue))
            add("sqlite_extended_code", .int(error.extendedResultCode.rawValue))
        case let failure as StatementFailure:
            let report = ErrorReport(failure.error)
            (name, message, remedy) = (report.name, failure.place + report.message, report.remedy)
            members = report.members + [.init(name: "line", value: .int(failure.line))]
        case let error as HistoryError:
            (name, message, remedy) = (error.stableName, error.text, error.hint)
        case let error as SystemError:
            (name, message, remedy) = ("system", error.description, Self.hint(for: error))
            add("errno", .int(error.errorNumber))
        case let error as CryptoError:
            (name, message, remedy) = (
                "cryptography", "\(error)".capitalizedFirst + ".", error.isOutOfMemory ? Self.memoryHint : nil
            )
        case is CancellationError:
            (name, message, remedy) = ("interrupted", "The command was interrupted.", nil)
        default:
            let report = SyncErrorReport(error)
            (name, message, remedy) = (report?.name ?? "failed", report?.message ?? "\(error)", report?.hint)
        }
    }

    /// - Parameter store: The store that is meant; nil for that of the present command.
    private func hint(for store: String?) -> String? {
        // A command with the key that has just failed would end in the same way.
        let isKeyRefused = ["wrongKey", "invalidKey", "keyMissing"].contains(name)
        return remedy.map { SuggestedCommand.completing($0, store: store, hasKey: !isKeyRefused) }
    }

    /// The message as a sentence, for a text that goes on.
    var sentence: String { message.hasSuffix(".") ? message : message + "." }

    /// Removes the call in Swift that a remedy names beside the command: " (SharedStore.open in a program)".
    private static func withoutSwiftCalls(_ sentence: String) -> String {
        sentence.replacing(#/ \((?:[^()]|\([^()]*\))* in a program\)/#, with: "")
    }

    /// For people.
    var text: String { "cipherctl: error: \(shownMessage)\n" + shownHint() }

    /// Names in it cannot control the terminal. SQL keeps its line ends, and its further lines are indented: a name in the
    /// schema cannot look like another message.
    private var shownMessage: String {
        name == "sqlite"
            ? message.withoutControls(keepsLines: true).replacing("\n", with: "\n    ") : message.withoutControls()
    }

    private func shownHint(_ store: String? = nil) -> String {
        hint(for: store).map { "hint: \($0.withoutControls())\n" } ?? ""
    }

    /// For programs.
    var json: JSON { json(of: nil) }

    private func json(of store: String?) -> JSON {
        let always: [JSON.Member] = [
            .init(name: "code", value: .string(name)), .init(name: "message", value: .string(message)),
            .init(name: "hint", value: .optional(hint(for: store), JSON.string)),
            .init(name: "exit_code", value: .int(exitCode.rawValue)),
        ]
        return .object(["error": .object(always + members)])
    }

    /// For people or programs, as the error of one store among several.
    func text(of store: String, isJSON: Bool) -> String {
        if isJSON, case .object(let error) = json(of: store) {
            return JSON.object([JSON.Member(name: "store", value: .string(store))] + error).text + "\n"
        }
        return "cipherctl: error: \(store.withoutControls()): \(shownMessage)\n" + shownHint(store)
    }

    private mutating func add(_ name: String, _ value: JSON) { members.append(.init(name: name, value: value)) }

    private static func hint(for error: DatabaseError) -> String? {
        if let shortage = error.shortage { return hint(for: shortage) }
        if error.isFailedRead { return "Try again. If it fails again, check the disk, as the log of the system says." }
        return switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED: "Another process holds the lock; try again."
        case .SQLITE_FULL: fullHint
        case .SQLITE_CORRUPT where error.extendedResultCode == .SQLITE_CORRUPT_VTAB:
            "\(DatabaseError.virtualTableHint). `cipherctl verify` names a full-text index and the command for it."
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: "Run `cipherctl verify` to see what is damaged."
        // SQLite's whole message for a table WITHOUT ROWID, or a named index, that it cannot read.
        case .SQLITE_ERROR where error.message == "no query solution": missingCollationHint
        default: nil
        }
    }

    // SQLite has one code for three causes.
    private static let fullHint =
        "Nothing was lost. Free space on the filesystem and try again. If it has space, the database is at a limit of its own: "
        + "the table has a row with the largest row id (9223372036854775807), or `PRAGMA max_page_count` was set."

    private static let missingCollationHint =
        "A key or an index of the table has a collation that only its program has, and SQLite cannot read it: "
        + "`cipherctl verify` names it. Read the rows with the program. dump and export need no collation."

    private static let memoryHint =
        "There is too little memory: end other programs, or raise the limit of this one (ulimit -v, MemoryMax=), and try "
        + "again. A passphrase takes up to 128 MiB."

    private static func hint(for error: SystemError) -> String? {
        if error.isNoSpace { return "Free space on the filesystem and try again; nothing was lost." }
        if error.isTooLongForWriting {
            return "A file has reached the length allowed (ulimit -f): raise that and try again; nothing was lost."
        }
        if error.isReaderGone {
            return "The program that read the output has ended; check what the command had done before."
        }
        if error.isReadOnlyFilesystem {
            return "The filesystem is mounted read-only: mount it with the right to write, or use another one."
        }
        if error.isOutOfDescriptors {
            return error.errorNumber == EMFILE
                ? "This process may have no more file descriptors: raise its limit (ulimit -n, LimitNOFILE=) and try again."
                : "The system has no file descriptors left (fs.file-max): end programs that have many files open, and try "
                    + "again."
        }
        if error.isOutOfMemory { return Self.memoryHint }
        if error.isPermission { return "Check owner and mode of the file and of its directory." }
        if error.isNotFound { return "Check the path." }
        if error.isNameTooLong { return "A name may have 255 bytes, and a path 4,095: give a shorter one." }
        if error.isLink {
            return "There is a symbolic link in the place of a file: find out who made it, and move it away."
        }
        if error.isDirectory { return "There is a folder in the place of a file: check the path." }
        return error.isInputOutput
            ? "The disk or the filesystem failed, as the log of the system says; check it before anything else." : nil
    }
}

extension ToolError {
    /// Its name for programs. If a store is complete, that of the underlying error.
    fileprivate var stableName: String {
        guard code == .incomplete, let cause else { return code.rawValue }
        return ErrorReport(cause).name
    }
}

extension HistoryError {
    fileprivate var stableName: String { "\(code)" }

    /// The message without the calls in Swift that it names.
    fileprivate var text: String { message.replacing(#/ Call [A-Za-z]+(?:\([A-Za-z:]*\))? [^.]*\./#, with: "") }

    fileprivate var hint: String? {
        switch code {
        case .notRecorded: "Begin to record changes with: cipherctl history record --all"
        case .expired: "Leave --since out, and read everything again that depends on the changes."
        case .noSuchReader: "List the readers with: cipherctl history readers"
        case .allTablesRecorded: "End it with `cipherctl history stop --all`, and record the other tables by name."
        case .unsuitableTable, .noSuchColumn, .invalidToken: nil
        }
    }
}

/// A failure that the commands detect themselves, in the three parts of every error.
struct CommandFailure: Error {
    let exitCode: ExitCode
    /// A stable name for programs.
    let name: String
    let what: String
    let why: String
    let hint: String

    init(_ exitCode: ExitCode, _ name: String, what: String, why: String, hint: String) {
        self.exitCode = exitCode
        self.name = name
        self.what = what
        self.why = why
        self.hint = hint
    }
}
