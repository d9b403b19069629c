import CipherStore
import KeyCustody
import KeyRotation
import StoreTools

/// The requested rotation, according to the options.
struct RotationRequest {
    /// The work on each store.
    enum Work: Equatable {
        case rotate
        case dryRun
        case resume
        case abort
    }

    let arguments: ParsedArguments
    /// nil when only the state of rotations is to be printed, which needs no key.
    let work: Work?
    let isCompromised: Bool
    let dropsOtherSlots: Bool
    /// Seconds.
    let youngestAge: UInt64?
    /// The directory in which a backup gets a folder; nil for none.
    let backupDirectory: String?
    /// Without mode, backup and proof of the new key, which differ for each store.
    private(set) var options = KeyRotation.Options()

    var paths: [String] { arguments.operands.map(BackupBundle.database) }

    /// - Throws: ``UsageError`` for options that do not go together.
    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        work = try Self.work(arguments)
        isCompromised = arguments.has("--compromised")
        dropsOtherSlots = arguments.has("--drop-other-slots")
        backupDirectory = arguments.value("--backup")
        youngestAge = try arguments.value("--if-older-than").map { text in
            guard let seconds = AgeText.seconds(text) else {
                throw UsageError("--if-older-than is not a duration.", hint: "For example: 90d, 12w")
            }
            return seconds
        }
        try requireConsistency()
        options = try Self.options(arguments)
    }

    private static func work(_ arguments: ParsedArguments) throws(UsageError) -> Work? {
        let works: [(String, Work?)] = [
            ("--dry-run", .dryRun), ("--status", nil), ("--resume", .resume), ("--abort", .abort),
        ]
        let given = works.filter { arguments.has($0.0) }
        guard given.count <= 1 else {
            throw UsageError(
                "\(given.map(\.0).joined(separator: " and ")) were given.", hint: "Give one of them.")
        }
        guard let first = given.first else { return .rotate }
        return first.1
    }

    private func requireConsistency() throws(UsageError) {
        if backupDirectory != nil, arguments.has("--no-backup") {
            throw UsageError("--backup and --no-backup were given.", hint: "Leave one of them out.")
        }
        if work == .rotate || work == .resume, backupDirectory == nil, !arguments.has("--no-backup") {
            throw UsageError(
                "A rotation starts with a backup, and no folder for it was given.",
                hint: "Give --backup DIR, or --no-backup if you can restore the store in another way.")
        }
        let hasOthers = KeyOptions.also.contains { $0.isGiven(arguments) }
        if !isCompromised, dropsOtherSlots || hasOthers {
            throw UsageError(
                "--drop-other-slots and the options with --also- belong to --compromised.",
                hint: "Add --compromised, or leave them out: without it every slot stays.")
        }
        if isCompromised, KeyOptions.isNewGiven(arguments) {
            throw UsageError(
                "--compromised and a new key were given.",
                hint:
                    "For a direct store, leave out --compromised. A store with slots keeps their keys: change a slot with "
                    + "`cipherctl key change` first, and leave out the new key.")
        }
        if work == nil, KeyOptions.isGiven(arguments) {
            throw UsageError("--status needs no key.", hint: "Leave the key out.")
        }
    }

    private static func options(_ arguments: ParsedArguments) throws(UsageError) -> KeyRotation.Options {
        var options = KeyRotation.Options()
        if let text = arguments.value("--throttle") {
            guard let speed = Double(text), speed.isFinite, speed >= 0.1, speed <= 100_000 else {
                throw UsageError("--throttle is not a speed.", hint: "Give megabytes per second, from 0.1 to 100000.")
            }
            options.throttleBytesPerSecond = Int(speed * 1e6)
        }
        if let text = arguments.value("--pause-budget") {
            guard let budget = Int(text), (1...60_000).contains(budget) else {
                throw UsageError("--pause-budget is not a time.", hint: "Give milliseconds, from 1 to 60000.")
            }
            options.pauseBudget = .milliseconds(budget)
        }
        switch arguments.value("--long-reads") {
        case nil, "give-up": break
        case "end": options.longReads = .end(after: options.longReads.limit)
        default: throw UsageError("--long-reads is give-up or end.", hint: "See: cipherctl rotate --help")
        }
        return options
    }
}

/// The keys in addition to the one that opens the stores, each read once.
struct RotationSecrets {
    /// The new key of direct stores.
    let new: UnlockedKey?
    /// Keys whose keyslots are kept when the master key is renewed.
    let also: [UnlockedKey]
    /// The command that returned the new key; it runs again before a switch.
    let proof: KeySource?

    init(_ request: RotationRequest, _ console: Console) throws {
        let arguments = request.arguments
        also = try KeyOptions.alsoSources(arguments).map { try UnlockedKey($0, console) }
        guard KeyOptions.isNewGiven(arguments) else {
            (new, proof) = (nil, nil)
            return
        }
        let source = try KeyOptions.newSource(arguments)
        new = try UnlockedKey(new: source, console)
        // Other sources return their key once, or cannot change.
        proof = arguments.value("--new-key-command") == nil ? nil : source
    }
}
