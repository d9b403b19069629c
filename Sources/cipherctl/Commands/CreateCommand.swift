import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// `create STORE`: a new, empty store with its sidecar.
struct CreateCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "create",
        summary: "make a new, empty store",
        operands: [OperandSyntax("STORE", "the file to create; its sidecar is placed beside it")],
        options: [
            Scheme.option("slots unless given"), FileMode.option, .json, .quiet,
        ] + KeyOptions.newStore,
        examples: [
            "cipherctl create app.db",
            "cipherctl create app.db --key-file app.key",
            "cipherctl create app.db --raw-key-file app.rawkey --json",
            "cipherctl create app.db --scheme direct --key-file app.key",
            "cipherctl create app.db --mode 0660 --key-file app.key",
        ],
        notes: [
            Scheme.note,
            FileMode.note,
            "A creation that was interrupted, by a kill or a power failure, is completed by the same command with the "
                + "same key.",
        ])

    private let path: String
    private let scheme: KeyScheme
    private let mode: Int?
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        path = arguments.operands[0]
        self.arguments = arguments
        scheme = try Scheme.parse(arguments) ?? .slots
        mode = try FileMode.parse(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let isTakenUp = try checkTarget()
        let source = try KeyOptions.source(arguments, isNew: !isTakenUp)
        if source.isDevice {
            throw CommandFailure(
                .usage, "deviceAlone", what: "\"\(path)\" was not created.",
                why: "A device alone would keep its only key: the store would be lost with the device.",
                hint:
                    "Create it with a passphrase or a key file. Then add a recovery key, and the device: `cipherctl help keys`."
            )
        }
        let key = try isTakenUp ? UnlockedKey(source, console) : UnlockedKey(new: source, console)
        var configuration = Configuration.ofTool()
        configuration.keyScheme = scheme
        if let mode { configuration.fileMode = mode }
        Interruption.beginWork()
        configuration.isOpeningCancelled = { Interruption.hasArrived }
        let store = try make(key, configuration, isTakenUp: isTakenUp, console)
        defer { try? store.close() }
        guard store.hasCreatedStore else { throw Self.exists(path, "Another process has created it meanwhile.") }
        for notice in store.notices { console.note(notice) }
        // For the report alone: the store exists already.
        let scheme = (try? store.keys.summary().scheme) ?? scheme
        try console.report(
            json: .object([
                "store": .string(path), "store_id": .string("\(store.storeID)"), "epoch": .int(store.epoch),
                "scheme": .string(scheme.rawValue), "completed_earlier_creation": .bool(isTakenUp),
            ]),
            lines: [
                "\(isTakenUp ? "completed" : "created") \(path)", "store id  \(store.storeID)",
                "sidecar   \(path)-sidecar and its .bak: keep both with the store; if both are lost, a "
                    + "passphrase opens nothing",
            ])
        return .ok
    }

    /// Creates the store, or completes a creation that was interrupted.
    ///
    /// - Throws: What opening throws; what it had begun at a free path is removed.
    private func make(
        _ key: UnlockedKey, _ configuration: Configuration, isTakenUp: Bool, _ console: Console
    ) throws -> SharedStore {
        do {
            return try SharedStore.open(at: path, unlockedBy: key.source, configuration: configuration)
        } catch {
            let creation = UnfinishedCreation(paths: StorePaths(path), key: key)
            // The user may forget the key before there is disk space: then nothing should be left that only this key
            // completes.
            if !isTakenUp { creation.remove() }
            let remains = creation.remains
            if remains == .complete {
                let report = ErrorReport(error)
                throw CommandFailure(
                    report.exitCode, report.name, what: "\"\(path)\" was created, but could not be opened.",
                    why: report.message,
                    hint:
                        "The store is complete: do not create it again. The next opening for writing does what is left."
                )
            }
            // The place was free before.
            if !isTakenUp, (error as? StoreError)?.code == .wrongKey {
                throw Self.exists(path, "Another process has created it meanwhile.")
            }
            if let note = note(on: remains, isTakenUp: isTakenUp) { console.note(note) }
            throw error
        }
    }

    /// The note about what a failed creation leaves; nil when that is nothing.
    private func note(on remains: UnfinishedCreation.Remains, isTakenUp: Bool) -> String? {
        switch remains {
        case .nothing, .complete: nil
        case .emptyFile: "\"\(path)\" is an empty file: the same command uses it, with any key"
        case .unfinished:
            "a part of \"\(path)\" is there, without any rows: the same command with the same key completes it"
        case .foreign where isTakenUp:
            "\"\(path)\" was left as it is: a creation must be completed with the key with which it was started"
        case .foreign:
            "\"\(path)\" was left as it is: another program has written the file, or this command with another key"
        case .unreadable:
            "parts of \"\(path)\" are there and cannot be read now: once they can, `cipherctl status` says whether the "
                + "store is complete; if it is not, the same command with the same key completes it"
        }
    }

    /// - Returns: Whether a creation was interrupted and must be completed.
    private func checkTarget() throws -> Bool {
        guard !MemoryPath.names(path) else {
            throw UsageError(
                "\"\(path)\" does not name a file, and a store is a file.",
                hint: "Give the name of a file.")
        }
        let paths = StorePaths(path)
        try paths.requireShortPath()
        switch try Files.kind(paths.database) {
        case .directory: throw Self.exists(path, "It is a directory.")
        case .other: throw Self.exists(path, "It is a device, a pipe or a socket, and a store is a regular file.")
        case .regular, nil: break
        }
        try OtherUserLink.refuse(path)
        try paths.requireFreeName()
        if try paths.isFreeForStore { try paths.requireFreeCompanions() }
        let sidecar = SidecarFiles(databasePath: paths.database)
        let copies = sidecar.read()
        for copy in SidecarCopy.allCases {
            // An entry that could not be read for this reason is not known to be there.
            if case .unreadable(let failure) = copies[copy], failure.isShortage { throw failure }
        }
        let fileBytes = try Files.status(of: path)?.byteCount
        if copies.areAbsent {
            // SQLite creates the file first, so an empty file may be all that is left of an interrupted creation.
            guard let fileBytes, fileBytes > 0 else {
                try paths.requireNoRemains()
                return false
            }
            throw Self.exists(path, "The file exists.")
        }
        let isCreating = copies.claimed.contains { $0.state == .creating }
        let isReady = SidecarCopy.allCases.contains { copies[$0].parsed.map { $0.claimed.state != .creating } ?? false }
        if isCreating && !isReady { return true }
        if fileBytes != nil { throw Self.exists(path, "The store exists.") }
        let names = try [paths.sidecar, paths.sidecarBackup].filter { try Files.entryExists($0) }
        let sidecarFiles = names.map { "\"\($0)\"" }.joined(separator: " and ")
        throw Self.exists(
            path,
            "A store was here: \(sidecarFiles) exists, and its database file is gone.",
            hint:
                "Put the file back or restore the store from a backup, or remove the rest with `cipherctl destroy`; "
                + "nothing was changed.")
    }

    private static func exists(
        _ path: String, _ why: String,
        hint: String = "Choose another name, or move what is there away; nothing was changed."
    ) -> CommandFailure {
        CommandFailure(.usage, "exists", what: "\"\(path)\" is not free for a new store.", why: why, hint: hint)
    }
}
