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
        for directory in try ImportStaging.removeAbandoned(for: place, .adopting) {
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
        // Opening turns the file to write-ahead logging; -wal and -shm stay from here on.
        let store = try SharedStore.open(at: path, unlockedBy: key.source)
        defer { try? store.close() }
        for notice in store.notices { console.note(notice) }
        // One that was cut is completed, and told of, by the opening.
        if result != nil { StoreOpening.logCreation(path, .direct, console) }
        if scheme == .slots, try store.keys.summary().scheme == .direct {
            try JobControlSuspension.withoutStopping { try store.keys.convertToSlots(key.source) }
            console.note(StoreInspection.formerPassphrase)
        }
        try report(result, store, seconds: (ContinuousClock.now - started) / .seconds(1), console)
        return .ok
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
