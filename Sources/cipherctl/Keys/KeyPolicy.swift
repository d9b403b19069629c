import StorePlatform
import StoreTools

extension KeyPolicy {
    static let options = [
        OptionSyntax(
            "--max-key-age", value: "AGE",
            "how old the data key may be, as 365d; 2y unless given here or in CIPHERSTORE_MAX_KEY_AGE; none: any age"),
        OptionSyntax(
            "--max-backup-age", value: "AGE",
            "how old the last verified backup may be; any age unless given here or in CIPHERSTORE_MAX_BACKUP_AGE"),
    ]

    /// - Throws: ``UsageError`` for an invalid duration.
    init(
        _ arguments: ParsedArguments,
        environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }
    ) throws(UsageError) {
        func text(_ option: String, _ variable: String) -> (text: String, name: String)? {
            if let value = arguments.value(option) { return (value, option) }
            guard let value = environment(variable), !value.isEmpty else { return nil }
            return (String(decoding: value, as: UTF8.self), variable)
        }
        let key = text("--max-key-age", "CIPHERSTORE_MAX_KEY_AGE")
        let backup = text("--max-backup-age", "CIPHERSTORE_MAX_BACKUP_AGE")
        self.init()
        if let key {
            keySeconds = try Self.bound(key)
            isKeyBoundGiven = keySeconds != nil
        }
        if let backup { backupSeconds = try Self.bound(backup) }
    }

    private static func bound(_ given: (text: String, name: String)) throws(UsageError) -> UInt64? {
        if given.text == "none" { return nil }
        guard let seconds = AgeText.seconds(given.text) else {
            throw UsageError("\(given.name) is not a duration.", hint: "For example: 365d, 12h, 4w, none")
        }
        return seconds
    }
}
