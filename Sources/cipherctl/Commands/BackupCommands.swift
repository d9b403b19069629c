import CipherStore
import Foundation
import KeyRotation
import StoreBackups
import StoreSharing
import StoreTools

/// `backup STORE DIR`, and `backup STORE --to PLACE`: a consistent, verified copy of a store in use.
struct BackupCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "backup",
        summary: "copy a store in use into a folder or a repository, consistent and verified",
        operands: [
            OperandSyntax("STORE", "the store; other processes keep reading and writing"),
            OperandSyntax("DIR", "the folder to make; nothing may be there", isOptional: true),
        ],
        options: [
            OptionSyntax(
                "--to", value: "PLACE",
                "instead of DIR: a repository, which keeps many backups: a folder, or s3://BUCKET/PREFIX"),
            OptionSyntax("--create", "with --to: make a repository of an empty place"),
            FleetOptions.dryRun, .json, .quiet, .progress,
        ] + FleetOptions.all + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl backup app.db /backup/app-2026-11-21 --key-file app.key",
            "cipherctl backup app.db --to /backup/repository --create --key-file app.key",
            "cipherctl backup app.db --to s3://backups/app --endpoint https://s3.example.org --key-file app.key",
            "cipherctl backup app.db \"/backup/app-$(date +%F)\" --key-credential app --json",
        ],
        notes: [
            "The folder holds store.db, the database as it is encrypted now, with its WAL merged in; its sidecar; and "
                + "manifest.json with their hashes. Every page is authenticated while it is copied, and the copy is "
                + "read back and opened before the folder gets its name. An interrupted backup leaves nothing.",
            "With --to only the pages are stored that the last backup of the store there has not. An interrupted backup "
                + "is none; `cipherctl backup prune` removes its objects. Without --create the place must be a "
                + "repository: the folder of a disk that is not mounted is none.",
            "A backup opens the store for writing, so it settles an interrupted rotation first: it undoes the "
                + "rotation, or completes it if its switch has begun. The command reports this before and after; "
                + "`cipherctl rotate STORE --status` shows it beforehand and changes nothing.",
            "A backup has the data key and the salt that the store had when it was made, and opens with the keys "
                + "that were valid then: a passphrase that was changed or removed since still opens it. To prevent "
                + "that, remove the backup.",
        ])

    private let storePath: String
    private let folder: String
    private let arguments: ParsedArguments
    private var isRepository: Bool { arguments.value("--to") != nil }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        storePath = BackupBundle.database(meantBy: arguments.operands[0])
        let places = arguments.operands.dropFirst() + [arguments.value("--to")].compactMap(\.self)
        guard let given = places.first, places.count == 1 else {
            throw UsageError(
                places.isEmpty ? "DIR is missing." : "DIR and --to are both given.",
                hint: "Give a new folder, or a repository with --to.")
        }
        if arguments.has("--create"), arguments.value("--to") == nil {
            throw UsageError("--create is given without --to.", hint: "Give both, or neither.")
        }
        // A shell completes the name of a folder with a slash, and mkdir takes it.
        folder = given.lastIndex { $0 != "/" }.map { String(given[...$0]) } ?? given
    }

    func run(_ console: Console) throws -> ExitCode {
        if isRepository {
            // Before the key is asked for.
            if arguments.has("--create") {
                try RepositoryPlace.requireFolder(folder)
            } else {
                _ = try RepositoryPlace.open(folder, arguments)
            }
        } else {
            try StorePaths(folder).requireShortPath()
            try ToolError.requireDirectory(for: folder)
        }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        if !RepositoryPlace.isServer(folder) { try ToolError.requireForeign(folder, to: storePath, "backup") }
        warnOfSettlement(console)
        if arguments.has("--dry-run") {
            return try BackupRehearsal(store: storePath, place: folder, isRepository: isRepository).run(key, console)
        }
        Interruption.beginWork()
        let store = try StoreOpening.writable(
            storePath, key, isCancelled: { Interruption.hasArrived }, onNotice: console.note)
        defer { try? store.close() }
        if isRepository {
            return try RepositoryWork.backUp(
                store, at: storePath, to: folder, arguments, console)
        }
        let watch = TransferWatch("backing up")
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try store.backup(
                toFolder: folder, progress: progress, onLongWait: Console.longWait(for: storePath),
                isCancelled: isCancelled)
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object(
                [
                    JSON.Member(name: "store", value: .string(storePath)),
                    JSON.Member(name: "backup", value: .string(folder)),
                ] + report.members),
            lines: ["backed up    \(storePath) -> \(folder)"] + report.lines)
        return .ok
    }

    /// Says what opening the store does about an interrupted rotation. An unreadable file is left to the opening,
    /// which reports the precise error.
    private func warnOfSettlement(_ console: Console) {
        guard let status = try? KeyRotation.status(of: storePath), status.isInterrupted else { return }
        let next = status.epoch + 1
        console.note(
            "a rotation of \"\(storePath)\" from epoch \(status.epoch) to \(next) was interrupted; the backup "
                + "needs a settled "
                + "store, so it is \(status.state == .switching ? "completed" : "undone") first")
    }
}

/// The checks of a backup without the backup: the key opens the store, the place is one, and there is room.
private struct BackupRehearsal {
    let store: String
    /// The new folder, or a repository.
    let place: String
    let isRepository: Bool

    func run(_ key: UnlockedKey, _ console: Console) throws -> ExitCode {
        if !isRepository, try Files.entryExists(place) {
            throw CommandFailure(
                .usage, "alreadyExists", what: "\"\(place)\" is there already.", why: "A backup makes a new folder.",
                hint: "Give another name. Nothing was changed.")
        }
        let status = try StoreStatus(store, key: ToolKey(source: { key.source }, read: { _ in key })).run(
            onNotice: Console.note)
        let bytes = status.pages * (status.settings?.pageBytes ?? 0)
        let free = try Files.freeBytes(at: isRepository ? place : Files.directory(of: Files.absolute(place)))
        // A repository stores the new pages alone, compressed or not: how many is not known before.
        let fits = isRepository || free >= bytes
        try console.report(
            json: .object([
                "store": .string(store), "dry_run": .bool(true), "place": .string(place), "pages": .int(status.pages),
                "bytes": .int(bytes), "free_bytes": .int(free), "fits": .bool(fits),
            ]),
            lines: [
                "would back up \(store) -> \(place)",
                "pages         \(status.pages), \(CountText.text(bytes, "byte"))"
                    + (isRepository ? "; those that the repository has already are not stored again" : ""),
                "free          \(CountText.text(free, "byte"))\(fits ? "" : ", which is not enough")",
            ])
        return fits ? .ok : .needsAttention
    }
}

/// `backup verify DIR`: whether a backup, or a repository of backups, is complete and unchanged, and opens with a key.
struct BackupVerifyCommand: Command {
    static let syntax = CommandSyntax(
        name: "backup verify",
        summary: "verify a backup in place, without restoring it",
        operands: [OperandSyntax("DIR", "the folder of the backup, or a repository as --to names it; it is only read")],
        options: [
            OptionSyntax(
                "--sample", value: "SHARE", "in a repository: read the pages of this share of its packs, as 10%"),
            .json, .quiet, .progress,
        ] + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl backup verify /backup/app-2026-11-21 --key-file app.key",
            "cipherctl backup verify /mnt/readonly/app-2026-11-21 --key-file app.key --json",
        ],
        notes: [
            "It verifies the key, the authentication codes of manifest and sidecar, the hash of each file, and every "
                + "page; then SQLite opens the database read-only and reads its schema. Nothing is locked, created or "
                + "changed, so the backup may be on a read-only medium, and read permission is enough.",
            "A -wal or -journal in the folder is no part of the backup. No command reads it; the exit code is 2, and a note "
                + "says what to do.",
            "The key is one that opened the store when the backup was made. `cipherctl verify DIR` runs "
                + "integrity_check and "
                + "foreign_key_check as well, and `cipherctl sql DIR` reads rows.",
            "A repository is verified by its hashes without a key: nothing is asked. With a key the records of its stores "
                + "are authenticated as well. The exit code is 65 if anything is damaged.",
            "A store whose name is \"verify\" is backed up as `cipherctl backup ./verify DIR`.",
        ])

    private let folder: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        folder = arguments.operands[0]
    }

    func run(_ console: Console) throws -> ExitCode {
        if RepositoryPlace.isRepository(folder) { return try RepositoryWork.verify(folder, arguments, console) }
        if arguments.value("--sample") != nil {
            throw UsageError("--sample is for repositories.", hint: "The folder is verified as a whole.")
        }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let watch = TransferWatch("verifying")
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try key.explainingRefusal {
                try SharedStore.verifyBackup(
                    at: folder, unlockedBy: key.source, progress: progress, isCancelled: isCancelled)
            }
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object(
                [JSON.Member(name: "backup", value: .string(folder))] + report.members + [
                    JSON.Member(name: "foreign_files", value: .array(report.foreignFiles.map(JSON.string)))
                ]),
            lines: ["verified     \(folder)"] + report.lines)
        return report.foreignFiles.isEmpty ? .ok : .needsAttention
    }
}

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
            OptionSyntax("--backup", value: "ID", "in a repository: the backup whose identifier begins so"),
            OptionSyntax(
                "--at", value: "TIME",
                "in a repository: the store as it was at this time in UTC, or the last backup made before"),
            OptionSyntax("--store", value: "ID", "with replicas of several stores: the one whose identifier begins so"),
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

/// Shows the progress of a backup or a restoration, with speed and remaining time, and ends it on a signal.
final class TransferWatch: Sendable {
    private let bar: ProgressBar
    private let start = ContinuousClock.now

    init(_ title: String) { bar = ProgressBar(title) }

    /// Runs the work.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 when a signal ended it; what `body` throws.
    func run<T>(
        _ body: (@escaping @Sendable (BackupProgress) -> Void, @escaping @Sendable () -> Bool) throws -> T
    ) throws -> T {
        let interruption = Interruption.shared
        defer { end() }
        return try Interruption.explaining { try body({ [self] in show($0) }, { interruption.isSet }) }
    }

    func end() { bar.end() }

    private func show(_ progress: BackupProgress) {
        let seconds = max(0.001, (ContinuousClock.now - start) / .seconds(1))
        let speed = Double(progress.bytesDone) / seconds
        let detail =
            switch progress.phase {
            case .copying:
                CountText.speed(bytesPerSecond: speed) + ", "
                    + CountText.decimal(
                        Double(progress.bytesTotal - progress.bytesDone) / max(1, speed), digits: 0) + " s left"
            case .verifying: "verifying"
            }
        bar.show(progress.bytesDone, of: progress.bytesTotal, detail: detail)
    }
}

extension BackupReport {
    /// The lines that commands print about a backup.
    var lines: [String] {
        let speed = CountText.speed(bytesPerSecond: Double(bytes) / max(0.001, duration / .seconds(1)))
        return [
            "store id     \(storeID)",
            "epoch        \(epoch), sidecar generation \(generation)",
            "pages        \(pages) of \(pageBytes) bytes, each authentic",
            "took         \(CountText.shortSeconds(duration)) (\(speed))",
        ]
    }

    var members: [JSON.Member] {
        [
            JSON.Member(name: "store_id", value: .string("\(storeID)")),
            JSON.Member(name: "epoch", value: .int(epoch)),
            JSON.Member(name: "generation", value: .int(generation)),
            JSON.Member(name: "created", value: .int(created)),
            JSON.Member(name: "page_bytes", value: .int(pageBytes)),
            JSON.Member(name: "pages", value: .int(pages)),
            JSON.Member(name: "bytes", value: .int(bytes)),
            JSON.Member(name: "verified", value: .bool(true)),
            JSON.Member(name: "seconds", value: .real(duration / .seconds(1))),
        ]
    }
}
