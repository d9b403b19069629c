import StoreTools

/// Why a fleet file cannot be used.
package struct FleetFileError: Error, Hashable, Sendable {
    package let path: String
    /// Nil where the file as a whole is meant.
    package let position: TextPosition?
    package let sentence: String
    package let hint: String

    /// The place and the sentence.
    package var description: String {
        "\"\(path)\"\(position.map { ", \($0)" } ?? ""): \(sentence)"
    }
}

/// The content of a fleet file, checked.
package struct FleetFile: Hashable, Sendable {
    /// An entry `[[stores]]`.
    struct Entry: Hashable, Sendable {
        let patterns: [String]
        let settings: FleetSettings
        let position: TextPosition
    }

    package static let standardPath = "/etc/cipherstore/fleet.toml"
    /// How many stores are worked on at a time, unless the file or the command line says so.
    package static let usualJobs = 4
    package static let mostJobs = 64

    package var jobs = usualJobs
    /// The time limit of a verification, a backup or a rotation of one store, in seconds.
    package var timeLimit: UInt64 = 24 * 3600
    private(set) var defaults = FleetSettings()
    private(set) var entries: [Entry] = []

    private static let topKeys = ["jobs", "time-limit"]
    private static let settingKeys = [
        "key-file", "raw-key-file", "key-command", "key-credential", "max-key-age", "max-backup-age", "max-wal",
        "min-free", "backup-place", "keep-last", "keep-daily", "keep-weekly", "keep-monthly", "replica-place",
        "max-replication-lag", "rotation-backup", "rotate-after", "rotation-window",
    ]
    /// Names under which a person would write a key itself.
    private static let secretKeys = ["key", "raw-key", "passphrase", "password", "secret", "pin"]

    /// - Parameter path: For errors.
    /// - Throws: ``FleetFileError``.
    package init(_ text: String, path: String) throws(FleetFileError) {
        do throws(TOMLError) {
            for table in try TOMLDocument(text).tables { try take(table) }
            guard !entries.isEmpty else {
                throw TOMLError(
                    position: TextPosition(line: 1, column: 1),
                    sentence: "The file names no store: [[stores]] is missing.")
            }
        } catch {
            throw FleetFileError(
                path: path, position: error.position, sentence: error.sentence,
                hint: "Correct that line. The keys of the file: Docs/Operations.md")
        }
    }

    private mutating func take(_ table: TOMLDocument.Table) throws(TOMLError) {
        switch (table.name, table.isElement) {
        case ("", _): try takeTop(table.entries)
        case ("defaults", false): defaults = try Self.settings(table.entries)
        case ("stores", true):
            guard let paths = table.entries.first(where: { $0.key == "path" }) else {
                throw TOMLError(position: table.position, sentence: "The key \"path\" of this store is missing.")
            }
            entries.append(
                Entry(
                    patterns: try Self.patterns(paths),
                    settings: try Self.settings(table.entries.filter { $0.key != "path" }, others: ["path"]),
                    position: table.position))
        case ("stores", false):
            throw TOMLError(position: table.position, sentence: "Write [[stores]], because there may be several.")
        case ("defaults", true): throw TOMLError(position: table.position, sentence: "Write [defaults]: there is one.")
        default:
            throw TOMLError(
                position: table.position, sentence: Self.unknown("table", table.name, among: ["defaults", "stores"]))
        }
    }

    private mutating func takeTop(_ entries: [TOMLDocument.Entry]) throws(TOMLError) {
        for entry in entries {
            switch entry.key {
            case "jobs": jobs = try entry.integer(1...Self.mostJobs)
            case "time-limit":
                guard let seconds = AgeText.seconds(try entry.string()), seconds > 0 else {
                    throw entry.wrong("a duration, such as \"12h\"")
                }
                timeLimit = seconds
            default:
                if Self.settingKeys.contains(entry.key) {
                    throw TOMLError(
                        position: entry.position,
                        sentence: "The key \"\(entry.key)\" belongs under [defaults] or [[stores]].")
                }
                throw Self.unknownKey(entry, among: Self.topKeys)
            }
        }
    }

    // MARK: The settings of stores

    private static func settings(
        _ entries: [TOMLDocument.Entry], others: [String] = []
    ) throws(TOMLError) -> FleetSettings {
        var settings = FleetSettings()
        for entry in entries {
            guard settingKeys.contains(entry.key) else { throw unknownKey(entry, among: settingKeys + others) }
            try take(entry, into: &settings)
        }
        return settings
    }

    private static func take(_ entry: TOMLDocument.Entry, into settings: inout FleetSettings) throws(TOMLError) {
        switch entry.key {
        case "key-file", "raw-key-file", "key-command", "key-credential":
            if settings.key != nil {
                throw TOMLError(
                    position: entry.position, sentence: "The key of a store has one source, and here is another.")
            }
            let value = entry.key.hasSuffix("file") ? try entry.path() : try entry.string()
            settings.key = FleetSettings.Key(option: "--\(entry.key)", value: value)
        case "max-key-age": settings.maxKeyAge = try entry.age(mayBeNone: true)
        case "max-backup-age": settings.maxBackupAge = try entry.age(mayBeNone: true)
        case "max-wal": settings.maxWAL = try entry.byteCount()
        case "min-free": settings.minFree = try entry.byteCount()
        case "backup-place": settings.backupPlace = try entry.path(mayBeURL: true)
        case "keep-last", "keep-daily", "keep-weekly", "keep-monthly":
            settings.retention["--\(entry.key)"] = try entry.integer(1...1_000_000)
        case "replica-place": settings.replicaPlace = try entry.path()
        case "max-replication-lag": settings.maxReplicationLag = try entry.age(mayBeNone: true)
        case "rotation-backup": settings.rotationBackup = try entry.path()
        case "rotate-after": settings.rotateAfter = try entry.age()
        default: settings.rotationWindows = try entry.windows()
        }
    }

    private static func patterns(_ entry: TOMLDocument.Entry) throws(TOMLError) -> [String] {
        guard case .array(let values) = entry.value else { return [try entry.path()] }
        var paths: [String] = []
        for value in values {
            guard case .string(let path) = value, path.hasPrefix("/") else {
                throw entry.wrong("absolute paths in quotes")
            }
            paths.append(path)
        }
        guard !paths.isEmpty else { throw entry.wrong("at least one path") }
        return paths
    }

    // MARK: Typing errors

    private static func unknownKey(_ entry: TOMLDocument.Entry, among names: [String]) -> TOMLError {
        if secretKeys.contains(entry.key.lowercased().replacing("_", with: "-")) {
            return TOMLError(
                position: entry.position,
                sentence: "No key is written in this file: give its source by key-file, raw-key-file, key-command or "
                    + "key-credential.")
        }
        return TOMLError(position: entry.position, sentence: unknown("key", entry.key, among: names))
    }

    private static func unknown(_ noun: String, _ name: String, among names: [String]) -> String {
        let near = NearName.find(name.lowercased().replacing("_", with: "-"), among: names)
        let hint = near.map { "Did you mean \"\($0)\"?" } ?? "There are: \(names.joined(separator: ", "))."
        return "There is no \(noun) \"\(name.prefix(40))\". \(hint)"
    }
}

extension TOMLDocument.Entry {
    fileprivate func wrong(_ expected: String) -> TOMLError {
        TOMLError(position: valuePosition, sentence: "The key \"\(key)\" needs \(expected).")
    }

    fileprivate func string() throws(TOMLError) -> String {
        guard case .string(let text) = value else { throw wrong("a string in quotes, not \(value.kind)") }
        guard !text.isEmpty, !text.contains("\0") else { throw wrong("a text that is not empty") }
        return text
    }

    fileprivate func path(mayBeURL: Bool = false) throws(TOMLError) -> String {
        let text = try string()
        guard text.hasPrefix("/") || (mayBeURL && text.contains("://")) else {
            throw wrong("an absolute path: the folder in which a service runs is not yours")
        }
        return text
    }

    fileprivate func age(mayBeNone: Bool = false) throws(TOMLError) -> String {
        let text = try string()
        guard AgeText.seconds(text) != nil || (mayBeNone && text == "none") else {
            throw wrong("a duration, such as \"365d\" or \"12h\"\(mayBeNone ? ", or \"none\"" : "")")
        }
        return text
    }

    fileprivate func integer(_ range: ClosedRange<Int>) throws(TOMLError) -> Int {
        guard case .integer(let number) = value, range.contains(number) else {
            throw wrong("an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Bytes: an integer, or a text such as `512MiB`.
    fileprivate func byteCount() throws(TOMLError) -> Int {
        switch value {
        case .integer(let number) where number >= 0: return number
        case .string(let text):
            guard let count = ByteCountText.bytes(text) else { fallthrough }
            return count
        default: throw wrong("a number of bytes, or a text such as \"512MiB\"")
        }
    }

    fileprivate func windows() throws(TOMLError) -> [RotationWindow] {
        let values: [TOMLDocument.Value] = if case .array(let values) = value { values } else { [value] }
        var windows: [RotationWindow] = []
        for value in values {
            guard case .string(let text) = value, let window = RotationWindow(text) else {
                throw wrong("times such as \"Sat,Sun 01:00-05:00\" or \"22:30-04:00\"")
            }
            windows.append(window)
        }
        return windows
    }
}

/// Numbers of bytes as people write them: `512MiB`, `1GiB`, `4096`.
package enum ByteCountText {
    private static let units: [(name: String, bytes: Int)] = [
        ("KiB", 1024), ("MiB", 1024 * 1024), ("GiB", 1024 * 1024 * 1024), ("TiB", 1024 * 1024 * 1024 * 1024), ("", 1),
    ]

    /// - Returns: Nil where the text is no such number, or too large.
    package static func bytes(_ text: String) -> Int? {
        guard let unit = units.first(where: { text.hasSuffix($0.name) }) else { return nil }
        let digits = text.dropLast(unit.name.count)
        guard (1...19).contains(digits.count), digits.allSatisfy({ $0.isASCII && $0.isNumber }), let count = Int(digits)
        else { return nil }
        let (bytes, isTooLarge) = count.multipliedReportingOverflow(by: unit.bytes)
        return isTooLarge ? nil : bytes
    }
}
