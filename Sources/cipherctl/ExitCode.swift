import CipherStore
import StoreCrypto
import StorePlatform
import StoreTools

/// The exit code of the program; `Docs/Commands.md` has the table.
enum ExitCode: Int32, CaseIterable {
    case ok = 0
    /// Failed for a reason without its own code, such as an SQL error.
    case failed = 1
    /// The command did its work and found something that needs attention.
    case needsAttention = 2
    case usage = 64
    case damagedData = 65
    case noSuchStore = 66
    case storeInUse = 69
    case inputOutput = 74
    case tryAgain = 75
    /// The wrong key, or missing permission.
    case notPermitted = 77
    case unsupported = 78
    /// Ended by SIGINT, SIGTERM or SIGHUP; what was begun is undone.
    case interrupted = 130

    /// Its meaning, in a few words.
    var meaning: String {
        switch self {
        case .ok: "done"
        case .failed: "failed, as by an SQL error"
        case .needsAttention: "done, but something needs attention"
        case .usage: "wrong usage"
        case .damagedData: "damaged or foreign data"
        case .noSuchStore: "no such store"
        case .storeInUse: "the store is in use"
        case .inputOutput: "input or output failed, or space, descriptors or memory are used up"
        case .tryAgain: "busy: try again"
        case .notPermitted: "wrong key, or no permission"
        case .unsupported: "unsupported library, filesystem or version"
        case .interrupted: "interrupted"
        }
    }

    /// The code for an error.
    init(_ error: any Error) {
        self =
            switch error {
            case let error as CommandFailure: error.exitCode
            case let error as ToolError: ExitCode(error)
            case is UsageError: .usage
            case is CancellationError: .interrupted
            case let error as StoreError: ExitCode(error.code)
            case let error as DatabaseError: error.shortage.map { ExitCode($0) } ?? ExitCode(error.resultCode)
            case let failure as StatementFailure: ExitCode(failure.error)
            case let error as HistoryError: ExitCode(error.code)
            case let error as SystemError: ExitCode(error)
            case let error as CryptoError: error.isOutOfMemory ? .inputOutput : .failed
            default:
                RepositoryPlace.failure(of: error)?.exitCode ?? SyncErrorReport(error)?.exitCode ?? .failed
            }
    }

    init(_ error: ToolError) {
        // An error that describes the state is caused by one that says why.
        if let cause = error.cause {
            self = ExitCode(cause)
            return
        }
        self =
            switch error.code {
            case .noSuchFile, .noDirectory: .noSuchStore
            case .exists, .storeName, .notRegular, .alreadyStore, .otherVersion: .usage
            case .notPlain, .notAdoptable, .sparse, .foreignWAL: .damagedData
            case .plainNeedsRecovery, .needsWriting: .notPermitted
            case .importInterrupted, .noSample: .inputOutput
            case .missingPart: .unsupported
            case .contentDiffers, .adoptionInterrupted, .incomplete: .failed
            }
    }

    init(_ code: StoreError.Code) {
        self =
            switch code {
            case .unsupportedLibrary, .unsupportedFilesystem, .sidecarAhead, .schemaAhead, .hardLinked:
                .unsupported
            case .invalidKey, .wrongKey, .keyMissing, .walMissing, .backupReadOnly, .notOwner: .notPermitted
            case .saltMissing, .sidecarDamaged, .sidecarForged, .sidecarRolledBack, .foreignSidecar, .settingsConflict,
                .notEncrypted, .headerDamaged, .pageDamaged, .truncated, .emptyFile, .databaseMissing, .walDamaged,
                .journalUntrusted, .backupDamaged:
                .damagedData
            case .noSuchStore: .noSuchStore
            case .keyRotated, .storeMoved: .tryAgain
            case .storeInUse, .rotationPending: .storeInUse
            case .slotNotFound, .alreadyExists, .storeName, .pathTooLong, .modeConflict: .usage
            case .storeClosed, .lastSlot, .tooManySlots, .erasureRefused: .failed
            }
    }

    init(_ code: HistoryError.Code) {
        self =
            switch code {
            case .notRecorded, .expired: .failed
            case .unsuitableTable, .noSuchColumn, .noSuchReader, .invalidToken, .allTablesRecorded: .usage
            }
    }

    init(_ code: ResultCode) {
        self =
            switch code.primaryResultCode {
            case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_PROTOCOL, .SQLITE_SCHEMA:
                .tryAgain
            case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOLFS, .SQLITE_NOMEM: .inputOutput
            case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT: .damagedData
            case .SQLITE_AUTH, .SQLITE_READONLY, .SQLITE_PERM: .notPermitted
            case .SQLITE_CANTOPEN: .noSuchStore
            default: .failed
            }
    }

    init(_ error: SystemError) {
        self =
            if error.isNotFound {
                .noSuchStore
            } else if error.isNameTooLong || error.isAlreadyThere {
                .usage
            } else if error.isPermission {
                .notPermitted
            } else if error.isLocked {
                .tryAgain
            } else {
                .inputOutput
            }
    }
}
