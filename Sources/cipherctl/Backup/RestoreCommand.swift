import CipherStore
import Foundation
import KeyRotation
import StoreBackups
import StoreSharing
import StoreTools

/// `restore DIR STORE`: a store from a backup in a folder, or in a repository.
struct RestoreCommand: Command {
    let changesFiles = true
    /// The former files get their names back.
    static let grace = Duration.seconds(15)
    static let syntax = CommandSyntax(
        name: "restore",
        summary: "make a store from a backup",
        operands: [
            OperandSyntax("DIR", "the folder of the backup, or a repository as --to names it; it is only read"),
            OperandSyntax("STORE", "the store to make; nothing may be there, unless --replace says so"),
        ],
        options: [
            OptionSyntax(
                "--replace", "replace the store that is there; no process may have it open"),
            OptionSyntax(
                "--replace-any-file",
                "with --replace: also replace a file that is not known to be a store, such as a text"),
            OptionSyntax("--backup", value: "ID", "in a repository: a backup, by the first digits of its identifier"),
            OptionSyntax(
                "--at", value: "TIME",
                "in a repository: the store as it was at this time in UTC, or the last backup made before"),
            OptionSyntax(
                "--store", value: "ID", "with replicas of several stores: one, by the first digits of its identifier"),
            FleetOptions.dryRun, .yes, .json, .quiet, .progress,
        ] + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl restore /backup/app-2026-11-21 app.db --key-file app.key",
            "cipherctl restore /backup/app-2026-11-21 app.db --replace --yes --key-file app.key",
            "cipherctl restore /backup/repository app.db --at 2026-11-28T10:15:30Z --key-file app.key",
        ],
        notes: [
            "Of a repository the newest backup or the last replicated moment is restored unless --backup or --at chooses "
                + "another one. If `cipherctl replicate` has shipped the store, --at gives the last commit before that time; a "
                + "time in a gap is refused. A record that another "
                + "user may have written is chosen by --backup alone; a note names later ones.",
            "The key is one that opened the store when the backup was made. The whole backup is verified before anything "
                + "is changed; then the copy is read back and takes its place in one step.",
            "With --replace the former files are kept in a folder beside the store, STORE-replaced-<time>: remove it "
                + "yourself when you no longer need it. A restoration that was killed leaves a store that does not "
                + "open, or the former one: run it again.",
        ])

    private let folder: String
    private let storePath: String
    private let arguments: ParsedArguments
    private var replaces: Bool { arguments.has("--replace") }
    private var replacesAnyFile: Bool { arguments.has("--replace-any-file") }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        folder = arguments.operands[0]
        storePath = arguments.operands[1]
        if replacesAnyFile, !replaces {
            throw UsageError("--replace-any-file is given without --replace.", hint: "Give both, or neither.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        try ToolError.requireForeign(storePath, to: folder, "store")
        try requirePlace()
        if arguments.has("--dry-run") { return try rehearse(console) }
        try confirm(console)
        let chosen = try chosenBackup(console)
        let former = formerSidecar
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let watch = TransferWatch("restoring")
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try explainingInterruption {
                switch chosen {
                case (let repository, .backup(let backup))?:
                    return try repository.restore(
                        backup, to: storePath, unlockedBy: key.source, replacing: replaces,
                        replacingAnyFile: replacesAnyFile, progress: progress, isCancelled: isCancelled)
                case (let repository, .moment(let moment))?:
                    return try repository.restore(
                        moment, to: storePath, unlockedBy: key.source, replacing: replaces,
                        replacingAnyFile: replacesAnyFile, progress: progress, isCancelled: isCancelled)
                case nil: break
                }
                return try SharedStore.restore(
                    from: folder, to: storePath, unlockedBy: key.source, replacing: replaces,
                    replacingAnyFile: replacesAnyFile, progress: progress, isCancelled: isCancelled)
            }
        }
        for notice in report.notices { console.note(notice) }
        noteRevivedSlots(former, console)
        try console.report(
            json: .object(
                [
                    JSON.Member(name: "backup", value: .string(chosen == nil ? folder : report.backup.folder)),
                    JSON.Member(name: "store", value: .string(storePath)),
                ] + report.backup.members + [
                    JSON.Member(name: "former_files", value: .optional(report.formerFiles) { .string($0) })
                ]),
            lines: ["restored     \(chosen == nil ? folder : report.backup.folder) -> \(storePath)"]
                + report.backup.lines
                + (report.formerFiles.map { ["former files \($0)"] } ?? []))
        return .ok
    }

    /// Verifies the backup, and says what the restoration would replace. Nothing is changed.
    private func rehearse(_ console: Console) throws -> ExitCode {
        let chosen = try chosenBackup(console)
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let isThere = try Files.entryExists(StorePaths(storePath).database)
        if isThere, !replaces {
            throw CommandFailure(
                .usage, "alreadyExists", what: "\"\(storePath)\" is there already.",
                why: "A restoration replaces a store only with --replace.", hint: "Add --replace, or give another path."
            )
        }
        let holders = isThere ? try StoreHolders(of: StorePaths(storePath).database).map(\.description) : []
        if chosen == nil {
            _ = try key.explainingRefusal { try SharedStore.verifyBackup(at: folder, unlockedBy: key.source) }
        } else {
            console.note("the pages of the repository were not read: `cipherctl backup verify DIR` reads them")
        }
        let backup = chosen.map(\.1.name)
        try console.report(
            json: .object([
                "dry_run": .bool(true), "backup": .string(backup ?? folder), "store": .string(storePath),
                "replaces": .bool(isThere), "verified": .bool(chosen == nil),
                "holders": .array(holders.map(JSON.string)),
            ]),
            lines: ["would restore \(backup ?? folder) -> \(storePath)"]
                + (isThere ? ["replaced      the store there; its files are kept in a folder beside it"] : [])
                + holders.map { "in use by     \($0): the restoration is refused" })
        return holders.isEmpty ? .ok : .storeInUse
    }

    /// The backup of a repository that is restored; nil where the operand is the folder of a backup.
    private func chosenBackup(_ console: Console) throws -> (BackupRepository, RepositoryWork.Chosen)? {
        if RepositoryPlace.isRepository(folder) {
            let repository = try RepositoryPlace.open(folder, arguments)
            return (repository, try RepositoryWork.chosen(arguments, in: repository, console))
        }
        if let at = folder.lastIndex(of: "@"), RepositoryPlace.isRepository(String(folder[..<at])),
            try !Files.entryExists(folder)
        {
            let (place, id) = (String(folder[..<at]), String(folder[folder.index(after: at)...]))
            throw UsageError(
                "A backup of a repository is chosen by --backup.",
                hint: "cipherctl restore \(ShellWord.path(place)) \(ShellWord.path(storePath))"
                    + (id.isEmpty ? "" : " --backup \(ShellWord.quoted(id))"))
        }
        for option in ["--backup", "--at", "--store"] where arguments.value(option) != nil {
            throw UsageError("\(option) is for repositories.", hint: "The folder has one backup.")
        }
        return nil
    }

    /// Says where the former store is when a restoration failed and could not put it back, now or earlier.
    private func explainingInterruption<Success>(_ restore: () throws -> Success) throws -> Success {
        let before = formerFiles
        do {
            return try restore()
        } catch {
            guard !(error is CancellationError), let kept = formerFiles else { throw error }
            let report = ErrorReport(error)
            // One that is still interrupted, and is refused for another reason: a wrong key, or another, damaged
            // backup.
            if before != nil, !(error is SystemError) {
                throw CommandFailure(
                    report.exitCode, report.name, what: report.message,
                    why: "An earlier restoration of \"\(storePath)\" was interrupted: the files of the former store "
                        + "that are not in their places are in \"\(kept)\".",
                    hint: report.hint ?? "Run the restoration again: it resumes.")
            }
            throw CommandFailure(
                report.exitCode, "restorationInterrupted",
                what:
                    "The restoration of \"\(storePath)\" was interrupted, and the store cannot be opened until it is "
                    + "run again.",
                why: "\(report.sentence) No file is lost: those of the former store that are not in their places are "
                    + "in \"\(kept)\".",
                hint: "Free space or repair the disk, then run the same command again: it resumes. To return to the "
                    + "former store instead, move the files of that folder back to their former places.")
        }
    }

    /// The folder with the files of a store whose restoration was interrupted.
    private var formerFiles: String? { (try? InterruptedRestoration.folder(of: StorePaths(storePath))) ?? nil }

    private func confirm(_ console: Console) throws {
        guard replaces else { return }
        try Confirmation.require(
            "The backup replaces the store \"\(storePath)\", whose files are kept in a folder beside it.", arguments)
    }

    /// Refuses a device, a pipe or a socket, and a name that belongs to another store.
    private func requirePlace() throws {
        let paths = StorePaths(storePath)
        try paths.requireShortPath()
        try ToolError.requireDirectory(for: storePath)
        if try Files.kind(paths.database) == .other {
            throw CommandFailure(
                .usage, "exists", what: "\"\(storePath)\" is no place for a store.",
                why: "It is a device, a pipe or a socket, and a store is a regular file.",
                hint: "Give the name of a file; nothing was changed.")
        }
        let folder = Files.directory(of: paths.database)
        if let place = try Files.identity(folder), try place == Files.identity(arguments.operands[0]) {
            throw CommandFailure(
                .usage, "exists", what: "\"\(storePath)\" is no place for a store.",
                why: "It is in the folder of the backup, and nothing is added to that folder.",
                hint: "Give a name in another folder; nothing was changed.")
        }
        if let owner = try StorePaths.owner(of: storePath) {
            try ToolError.requireForeign(storePath, to: owner, "store")
        }
        // Before anything is asked.
        if replaces, !replacesAnyFile { try ReplacedFile(paths: paths).requireStore() }
    }

    /// The sidecar of the store that is replaced; nil if there is none that can be read.
    private var formerSidecar: Sidecar? {
        replaces ? SidecarFiles(databasePath: StorePaths(storePath).database).read().newestClaimed : nil
    }

    /// Names the keyslots that were removed after the backup was made, and open the restored store.
    private func noteRevivedSlots(_ former: Sidecar?, _ console: Console) {
        let restored = SidecarFiles(databasePath: StorePaths(storePath).database).read().newestClaimed
        guard let former, let restored, former.storeID == restored.storeID else { return }
        let known = Set(former.slots.map(\.id))
        let revived = restored.slots.map(\.id).filter { !known.contains($0) }
        guard !revived.isEmpty else { return }
        console.note(
            "keys that were removed after this backup open the store: keyslot "
                + "\(revived.map(String.init).joined(separator: ", ")). Remove them with `cipherctl key remove`; if "
                + "somebody unauthorized knows one, run `cipherctl rotate --compromised`")
    }
}
