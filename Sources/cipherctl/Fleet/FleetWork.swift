import Foundation
import ServicePlatform
import StoreFleet

/// The commands that work on all stores of a fleet, with the arguments that each store gets.
enum FleetWork: String {
    case status
    case verify
    case backup
    case rotate
    case doctor

    /// Whether a store is only read.
    var isReading: Bool { self == .status || self == .verify || self == .doctor }

    /// Whether it reads no more than some pages, so that it has a short time limit.
    var isShort: Bool { self == .status || self == .doctor }

    /// The word for people.
    var progress: String {
        switch self {
        case .status, .doctor: "checking"
        case .verify: "verifying"
        case .backup: "backing up"
        case .rotate: "rotating"
        }
    }
}

/// The command lines of a work on the stores of a fleet.
struct FleetCommandLines {
    let work: FleetWork
    /// The options of the command line that each store gets.
    private let passed: [String]
    private let arguments: ParsedArguments

    /// Options that the fleet itself uses.
    private static let own: Set<String> = Set(
        FleetOptions.all.map(\.name) + ["--json", "--quiet", "--progress", "--openmetrics", "--textfile"])

    /// Decisions that belong to one store.
    private static func isForOneStore(_ name: String) -> Bool {
        ["--key-fd", "--compromised", "--drop-other-slots", "--resume", "--abort", "--create"].contains(name)
            || name.hasPrefix("--new-") || name.hasPrefix("--also-")
    }

    /// - Throws: ``UsageError`` for an option that belongs to one store.
    init(_ work: FleetWork, _ arguments: ParsedArguments, _ syntax: CommandSyntax) throws(UsageError) {
        self.work = work
        self.arguments = arguments
        var passed: [String] = []
        for option in syntax.options where !Self.own.contains(option.name) {
            let isGiven = arguments.has(option.name) || arguments.value(option.name) != nil
            if isGiven, Self.isForOneStore(option.name) {
                throw UsageError(
                    "\(option.name) and --fleet were given.", hint: "That is decided store by store: name the store.")
            }
            if arguments.has(option.name) { passed.append(option.name) }
            passed += arguments.values(option.name).flatMap { [option.name, $0] }
        }
        self.passed = passed
    }

    private func isGiven(_ names: String...) -> Bool { names.contains { passed.contains($0) } }
    private var hasKey: Bool { KeyOptions.all.contains { passed.contains($0.name) } }
    private var isDry: Bool { isGiven("--dry-run", "--status") }

    /// The arguments for a store, without the program.
    ///
    /// - Throws: ``CommandFailure`` where the settings of the store do not suffice, or its rotation window is closed.
    func arguments(for store: Fleet.Store, now: Date = Date()) throws(CommandFailure) -> [String] {
        let settings = store.settings
        var words = [work.rawValue, store.path, "--json"] + passed
        func add(_ option: String, _ value: String?) {
            if let value, !isGiven(option) { words += [option, value] }
        }
        if !hasKey, !isGiven("--no-key"), !(work == .rotate && isGiven("--status")) {
            if let key = settings.key {
                words += [key.option, key.value]
            } else if work.isShort {
                words.append("--no-key")
            } else {
                throw Self.lacking(store, "a key", "key-file, raw-key-file, key-command or key-credential")
            }
        }
        switch work {
        case .status, .doctor:
            add("--max-key-age", settings.maxKeyAge)
            // The age of a backup in a repository is known from there.
            add("--max-backup-age", settings.backupPlace == nil ? settings.maxBackupAge : nil)
            add("--max-wal", settings.maxWAL.map(String.init))
            add("--min-free", settings.minFree.map(String.init))
        case .verify: break
        case .backup:
            guard isGiven("--to") || settings.backupPlace != nil else {
                throw Self.lacking(store, "a place for backups", "backup-place")
            }
            add("--to", settings.backupPlace)
        case .rotate: words += try rotation(of: store, now)
        }
        return words
    }

    private func rotation(of store: Fleet.Store, _ now: Date) throws(CommandFailure) -> [String] {
        let settings = store.settings
        if isDry { return [] }
        var words: [String] = []
        if !isGiven("--if-older-than") {
            guard let age = settings.rotateAfter else {
                throw Self.lacking(
                    store, "the age from which on a key is rotated", "rotate-after, or give --if-older-than")
            }
            words += ["--if-older-than", age]
        }
        if !isGiven("--backup", "--no-backup") {
            guard let folder = settings.rotationBackup else {
                throw Self.lacking(
                    store, "a folder for the backup before the rotation", "rotation-backup, or give --no-backup")
            }
            words += ["--backup", folder]
        }
        let windows = settings.rotationWindows ?? []
        guard windows.isEmpty || windows.contains(where: { $0.isOpen(at: now) }) else {
            let next = windows.compactMap { $0.nextOpening(after: now) }.min()
            throw CommandFailure(
                .tryAgain, "outsideWindow", what: "\"\(store.path)\" is not rotated now.",
                why: "Its rotation window is closed"
                    + (next.map { " until \(Self.text($0)), by the clock of this machine." } ?? "."),
                hint: "Run it in the window. To rotate it now, run `cipherctl rotate` with the store itself.")
        }
        return words
    }

    /// By the clock of this machine, with its offset from UTC.
    private static func text(_ date: Date) -> String {
        date.formatted(Date.ISO8601FormatStyle(timeZoneSeparator: .colon, timeZone: .current))
    }

    private static func lacking(_ store: Fleet.Store, _ what: String, _ keys: String) -> CommandFailure {
        CommandFailure(
            .usage, "fleetSetting", what: "The fleet file lacks \(what) for \"\(store.path)\".",
            why: "Nothing was done with this store.", hint: "Set \(keys).")
    }
}
