import CipherStore
import KeyCustody
import KeyRotation
import StorePlatform
import StoreSharing
import StoreTools

/// `rotate STORE...`: gives stores a new data key and salt while all processes continue.
struct RotateCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "rotate",
        summary: "encrypt stores with a new key while they stay in use",
        operands: [OperandSyntax("STORE", "a store; it may be in use, and there may be several", isRepeated: true)],
        options: [
            OptionSyntax(
                "--backup", value: "DIR", "make a verified backup in a folder of its own in this directory first"),
            OptionSyntax("--no-backup", "make no backup (only if you can restore the store another way)"),
            OptionSyntax(
                "--compromised", "renew the master key too: somebody may have opened a keyslot without permission"),
            OptionSyntax("--drop-other-slots", "with --compromised: remove the slots whose keys are not given"),
            OptionSyntax("--if-older-than", value: "AGE", "skip stores whose data key is younger, for example 90d"),
            OptionSyntax("--dry-run", "check whether and how it can be done; change nothing"),
            OptionSyntax("--status", "report whether a rotation is running or was interrupted; needs no key"),
            OptionSyntax("--resume", "resume an interrupted rotation"),
            OptionSyntax("--abort", "abandon an interrupted rotation, before its switch"),
            OptionSyntax("--throttle", value: "MB/s", "the highest speed at which pages are copied"),
            OptionSyntax(
                "--pause-budget", value: "MS",
                "how long other processes wait for a pause before the request is withdrawn, in milliseconds; 250 "
                    + "unless given"
            ),
            OptionSyntax(
                "--long-reads", value: "give-up|end",
                "what happens to reads that last longer than a minute: the rotation gives up (the default), or "
                    + "ends them with keyRotated"
            ),
            .yes, .json, .quiet, .progress,
        ] + FleetOptions.all + KeyOptions.all + KeyOptions.new + KeyOptions.also,
        examples: [
            "cipherctl rotate app.db --backup /backup --key-file app.key",
            "cipherctl rotate app.db --compromised --also-key-file other.key --backup /backup --key-file app.key",
            "cipherctl rotate --if-older-than 90d --backup /backup --key-credential fleet /var/lib/*/app.db",
            "cipherctl rotate --fleet",
        ],
        notes: RotateNotes.all)

    /// A former copy is removed, and processes that wait are released.
    static let grace = Duration.seconds(15)

    private let request: RotationRequest

    init(_ arguments: ParsedArguments) throws { request = try RotationRequest(arguments) }

    func run(_ console: Console) throws -> ExitCode {
        let paths = Self.paths(request.paths, console)
        guard let work = request.work else { return try RotationStatusReport.run(paths, console) }
        let key = try UnlockedKey(KeyOptions.source(request.arguments), console)
        let secrets = try RotationSecrets(request, console)
        try confirm()
        _ = Interruption.shared
        var fleet = FleetReport(isJSON: console.isJSON)
        for path in paths {
            let rotation = StoreRotation(
                path: path, work: work, request: request, key: key, secrets: secrets, console: console)
            let result = RotationInspection.outcome(instead: rotation) ?? rotation.outcome()
            fleet.add(result)
            if !console.isJSON { for line in result.lines { try console.line(line) } }
            // After a signal the next one is not begun.
            if Interruption.shared.isSet { break }
        }
        try fleet.report(of: paths.count, console)
        return fleet.exitCode
    }

    /// Each store once, under its first name: one that was named twice would be rotated twice.
    private static func paths(_ names: [String], _ console: Console) -> [String] {
        var known: Set<String> = []
        return names.filter { name in
            // With all links resolved, as the store's other files are found.
            let isNew = known.insert(StorePaths(name).database).inserted
            if !isNew { console.note("\"\(name)\" was named before: it is done once") }
            return isNew
        }
    }

    private func confirm() throws {
        guard request.work == .rotate, request.dropsOtherSlots else { return }
        try Confirmation.require("Slots whose keys are not given are removed.", request.arguments)
    }
}

enum RotateNotes {
    static let all = [
        "The database is copied page by page under a new data key and salt, verified, and later writes are carried "
            + "over. At the end all processes pause for a moment and continue with the new key; those of a direct "
            + "store, and all after --compromised, get keyRotated and open the store again. Keyslots stay. "
            + "A rotation that fails or is interrupted before that leaves the store as it was; the next opening for "
            + "writing undoes or completes one that was killed.",
        "Give --backup DIR or --no-backup. The backup is made and verified before a page is copied, and opens "
            + "with the former key.",
        "If a copy of a damaged WAL is beside the store (`STORE-wal-damaged`) that the present key reads, --no-backup "
            + "is refused, and --dry-run warns. No later key reads the copy: read it first with `cipherctl salvage`, and "
            + "remove it.",
        "--compromised renews the master key as well, and so every keyslot. Those that the given key and the keys of "
            + "the options with --also- open keep their numbers. If there are others, the command refuses to run "
            + "unless --drop-other-slots allows that they are removed.",
        "Give the new key of a direct store by an option that begins with --new-. Its other processes get keyRotated and "
            + "open it with the new key. "
            + "A --new-key-command runs again before the switch and must print the same key: that proves that a secret "
            + "manager has stored it.",
        "--resume continues an interrupted rotation as it was started. A direct store requires the same new key again: "
            + "after the switch nothing else opens it. If that key is lost, use --abort, which is possible until the "
            + "switch has begun.",
        "For a direct store the error `rotationPending` says which key to keep. Keep both until the store was "
            + "opened for writing. If the error says that the copy has taken the database's place, only the new key "
            + "opens the store.",
        "The former file is removed, not overwritten: on SSDs, in snapshots and in backups its pages stay, under the "
            + "former key. What to do in which case: cipherctl help keys",
        "If the rotation of one store fails, those of the other stores still run; the exit code is that of the worst failure.",
    ]
}
