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
