import CipherStore
import KeyCustody
import StorePlatform

/// `adopt DB`: a standard SQLCipher file becomes a store, in its place.
struct AdoptCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "adopt",
        summary: "turn an existing SQLCipher database into a store, in its place",
        operands: [OperandSyntax("DB", "the database; nobody may have it open")],
        options: [
            OptionSyntax("--compatibility", value: "1|2|3|4", "the version of SQLCipher that made it; 4 unless given"),
            Scheme.option("direct unless given"), .json,
        ] + KeyOptions.all,
        examples: [
            "cipherctl adopt app.db",
            "cipherctl adopt app.db --key-file app.key",
            "cipherctl adopt old.db --compatibility 3 --key-file app.key --json",
        ],
        notes: [
            "A database of SQLCipher 4 keeps its key and all pages but the first, which is written anew: its first 32 "
                + "bytes become readable, and the salt that was there moves to the sidecar. A database of an older version "
                + "is copied row by row, and the original stays beside it as DB.sqlcipher3 (or 2, or 1).",
            "With --scheme slots the store gets a key slot for its key in the end; the database keeps its key, so that the "
                + "former passphrase opens it with any SQLCipher until `cipherctl rotate` has run.",
            "The content hash is compared before the store takes the file's place. A run that is cut, by a kill or a "
                + "power cut, leaves the file as it was or the store; the same command completes it.",
            "Programs that open the database otherwise than through CipherStore need salt and header size from now on: "
                + "`cipherctl key reveal` prints them.",
        ])

    private let path: String
    private let version: Int
    private let scheme: KeyScheme
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        guard let version = Int(arguments.value("--compatibility") ?? "4"), (1...4).contains(version) else {
            throw UsageError("There is no such version of SQLCipher.", hint: "Give --compatibility 1, 2, 3 or 4.")
        }
        self.version = version
        scheme = try Scheme.parse(arguments) ?? .direct
    }

    func run(_ console: Console) throws -> ExitCode {
        let started = ContinuousClock.now
        let target = AdoptionTarget(path)
        let place = ImportTarget(path: target.path)
        let kind = try target.examine()
        if case .standard = kind { try target.requireFreeBackup(version: version) }
        let key = try UnlockedKey(new: KeyOptions.source(arguments), console)
        let found = try prove(key, kind, target)
        // A file that cannot be adopted gets no lock file.
        let opening = try place.lockOpening(likeFile: target.path)
        defer { opening.release() }
        for directory in try place.removeAbandoned(.adopting) {
            console.note("removed \"\(directory)\", which an adoption left that was killed")
        }
        guard try target.examine() == kind else { throw AdoptedFile.inUse(target.path, "It changed a moment ago.") }
        _ = Interruption.shared
        var result: StoreAdoption.Result?
        if case .standard(let salt) = kind {
            let progress = ProgressBar("adopting", isAllowed: !console.isJSON)
            defer { progress.end() }
            result = try StoreAdoption(
                target: target, salt: salt, key: key, found: found, version: version, progress: progress
            ).run()
        }
        opening.release()
        let store = try complete(result, key, console)
        defer { try? store.close() }
        for notice in store.notices { console.note(notice) }
        try convert(store, key, console)
        try report(result, store, seconds: (ContinuousClock.now - started) / .seconds(1), console)
        return .ok
    }

    /// Opens the store that took the file's place: that turns it to write-ahead logging, -wal and -shm stay from here on,
    /// and completes what the adoption could not.
    ///
    /// - Throws: ``CommandFailure`` that says that the file is converted, whatever failed.
    private func complete(
        _ result: StoreAdoption.Result?, _ key: UnlockedKey, _ console: Console
    ) throws -> SharedStore {
        // What failed may have been the second copy alone.
        let isReady = result?.isReady == true
        do {
            let store = try SharedStore.open(at: path, unlockedBy: key.source)
            if let failure = result?.postponed {
                // A directory whose fsync failed may hold the former name yet after a power cut.
                console.note("this failed once and was done again: \(ErrorReport(failure).message)")
                try Files.synchronize(directory: Files.directory(of: StorePaths(path).database))
            }
            // One that was interrupted is completed, and recorded, by the opening.
            if isReady { StoreOpening.logCreation(path, .direct, console) }
            return store
        } catch {
            // Completing an earlier adoption, a key that is refused is the caller's mistake.
            if result == nil, ExitCode(error) == .notPermitted { throw error }
            if isReady { StoreOpening.logCreation(path, .direct, console) }
            let report = ErrorReport(error)
            let state = SidecarFiles(databasePath: StorePaths(path).database).read().newestClaimed?.state
            let again =
                isReady || state == .ready
                ? "The store is complete; the next opening for writing does what is left."
                : "Free space or mend the disk, then run the same command again, which completes the adoption."
            throw CommandFailure(
                report.exitCode, "adoptionInterrupted",
                what: "The adoption of \"\(path)\" was interrupted after the store had taken the file's place.",
                why: report.message,
                hint:
                    "The file is converted, with all its rows: its key opens it as a store, and no longer as a standard "
                    + "SQLCipher file. \(again)")
        }
    }

    /// Gives the store key slots where that was asked for.
    private func convert(_ store: SharedStore, _ key: UnlockedKey, _ console: Console) throws {
        guard scheme == .slots, try store.keys.summary().scheme == .direct else { return }
        do {
            try JobControlSuspension.withoutStopping { try store.keys.convertToSlots(key.source) }
        } catch {
            let report = ErrorReport(error)
            throw CommandFailure(
                report.exitCode, report.name,
                what: "\"\(path)\" was adopted as a direct store, and did not get key slots.", why: report.message,
                hint:
                    "The store is complete and opens with its key. Give it slots with `cipherctl key convert --to slots`."
            )
        }
        console.note(StoreInspection.formerPassphrase)
    }

    private func prove(
        _ key: UnlockedKey, _ kind: AdoptionTarget.Kind, _ target: AdoptionTarget
    ) throws -> CipherProbe.Found? {
        guard case .standard(let salt) = kind else { return nil }
        return try CipherProbe(target.path, salt: salt, key: key).prove(path, version: version)
    }

    private func report(
        _ result: StoreAdoption.Result?, _ store: SharedStore, seconds: Double, _ console: Console
    ) throws {
        var lines = ["\(result == nil ? "completed" : "adopted")     \(path)", "store id    \(store.storeID)"]
        if let result {
            lines += [
                "content     \(result.hash.hex)",
                "verified    the store, read back, has the content of the file before",
            ]
        }
        if let backup = result?.backup { lines.append("original    \(backup): remove it when you no longer need it") }
        lines.append(
            "sidecar     \(path)-sidecar and its .bak: keep both with the store; they hold its salt from now on")
        try console.report(
            json: .object([
                "store": .string(path), "store_id": .string("\(store.storeID)"), "scheme": .string(scheme.rawValue),
                "compatibility": .int(version), "completed_earlier_adoption": .bool(result == nil),
                "content_hash": .optional(result) { .string($0.hash.hex) }, "verified": .bool(result != nil),
                "original": .optional(result?.backup, JSON.string), "seconds": .real(seconds),
            ]),
            lines: lines)
    }
}
