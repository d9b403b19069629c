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
        summary: "encrypt stores in use with a new key, while everybody goes on",
        operands: [OperandSyntax("STORE", "a store; it may be in use, and there may be several", isRepeated: true)],
        options: [
            OptionSyntax(
                "--backup", value: "DIR", "make a verified backup in a folder of its own in this directory first"),
            OptionSyntax("--no-backup", "make none: there is another way back"),
            OptionSyntax("--compromised", "a new master key too: somebody has opened a slot who should not have"),
            OptionSyntax("--drop-other-slots", "with --compromised: remove the slots whose keys are not given"),
            OptionSyntax("--if-older-than", value: "AGE", "leave stores alone whose data key is younger, as 90d"),
            OptionSyntax("--dry-run", "look whether and how it can be done, and change nothing"),
            OptionSyntax("--status", "tell whether a rotation runs or was cut; needs no key"),
            OptionSyntax("--resume", "go on with a rotation that was cut"),
            OptionSyntax("--abort", "end a rotation that was cut, before its switch"),
            OptionSyntax("--throttle", value: "MB/s", "how fast pages are copied at most"),
            OptionSyntax(
                "--pause-budget", value: "MS", "milliseconds that everybody may be kept waiting; 250 unless given"),
            OptionSyntax(
                "--long-reads", value: "give-up|end",
                "when reads do not end: give up (the usual way), or end them with keyRotated, each after a minute"),
            .yes, .json,
        ] + KeyOptions.all + KeyOptions.new + KeyOptions.also,
        examples: [
            "cipherctl rotate app.db --backup /backup --key-file app.key",
            "cipherctl rotate app.db --compromised --also-key-file other.key --backup /backup --key-file app.key",
            "cipherctl rotate --if-older-than 90d --backup /backup --key-credential fleet /var/lib/*/app.db",
        ],
        notes: RotateNotes.all)

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
            let result = RotationFirstLook.outcome(instead: rotation) ?? rotation.outcome()
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
        "The database is copied page by page under a new data key and salt, verified, and what is written meanwhile is "
            + "carried over. In the end everybody pauses for a moment, and goes on with the new key. Slots stay. "
            + "A rotation that fails or is interrupted before that leaves the store as it was; one that is killed is undone "
            + "or finished by the next opening for writing.",
        "A backup comes first: say --backup DIR or --no-backup. It keeps the former key.",
        "--compromised renews the master key as well, and so every slot: those that the given key and the keys of the "
            + "options with --also- open are kept under their numbers; when there are others, it is refused unless "
            + "--drop-other-slots says that they may go.",
        "A direct store takes its new key from the options with --new-, and its other processes have to ask for it "
            + "again. A --new-key-command is asked again before the switch and must give the same key: so a secret manager "
            + "proves that it keeps it.",
        "--resume goes on with a rotation that was cut, as it was begun. A direct store demands its new key again, and is "
            + "refused when that is another one: after the switch nothing else opens it. If it is lost, --abort, as long as "
            + "the switch has not begun.",
        "An error `rotationPending` of a direct store says which key to keep: the new one, once it counts; both, until the "
            + "store was opened for writing, where the switch was announced or it is not known which key counts.",
        "The former file is removed, not overwritten: on SSDs, in snapshots and in backups its pages stay, under the former "
            + "key. What answers which mishap: cipherctl help keys",
        "Of several stores each is rotated though another one failed; the exit code is that of the worst. Off a terminal "
            + "progress is told as lines of JSON on standard error.",
    ]
}
