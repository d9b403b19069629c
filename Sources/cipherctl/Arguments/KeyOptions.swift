import KeyCustody
import StorePlatform
import StoreTools

/// The origin of a store's key according to the options: exactly one.
enum KeyOptions {
    /// Those of one secret, as a new store and a new key have it.
    static let secrets: [OptionSyntax] = [
        OptionSyntax("--key-file", value: "F", "a passphrase; one newline at its end is dropped; mode 0600"),
        OptionSyntax("--raw-key-file", value: "F", "a raw key: exactly 32 bytes; mode 0600"),
        OptionSyntax("--key-fd", value: "N", "a passphrase, read from an open file descriptor"),
        OptionSyntax(
            "--key-command", value: "C", "a passphrase, printed by a program (no shell is involved)"),
        OptionSyntax("--key-env", value: "VAR", "a passphrase in an environment variable; not recommended"),
        OptionSyntax("--key-credential", value: "NAME", "a passphrase that systemd gives to a service"),
    ]

    /// Those of one secret, and those of a device.
    static let sources = secrets + DeviceOptions.sources

    /// Those of a store that exists: also the shares of a recovery key.
    static let opening = sources + RecoveryShareOptions.all

    /// Those of a new store, with what devices need besides.
    static let newStore = sources + DeviceOptions.settings

    /// Those of a store that exists: also the shares of a recovery key.
    static let all = opening + DeviceOptions.settings

    /// The same options for a new key of the store.
    static let new: [OptionSyntax] = sources.map { option in
        OptionSyntax("--new-" + option.name.dropFirst(2), value: option.value, "the new key: " + option.help)
    }

    /// The same options for the key of an invitation, which no device keeps.
    static let invitation: [OptionSyntax] = secrets.map { option in
        OptionSyntax(
            "--invitation-" + option.name.dropFirst(2), value: option.value, "the key of the invitation: " + option.help
        )
    }

    /// The source of the key of an invitation; without one the command prompts at the terminal, twice for a new one.
    ///
    /// - Throws: As ``source(_:isNew:hasTerminal:)``.
    static func invitationSource(
        _ arguments: ParsedArguments, isNew: Bool, hasTerminal: Bool = canPrompt
    ) throws -> KeySource {
        try source(arguments, invitation, "key of the invitation", isNew: isNew, hasTerminal: hasTerminal)
    }

    /// Further keys, of which there may be several.
    static let also: [OptionSyntax] = sources.map { option in
        OptionSyntax(
            "--also-" + option.name.dropFirst(2), value: option.value, "a key whose slot is kept: " + option.help,
            isRepeatable: true)
    }

    /// The further keys that were named.
    static func alsoSources(_ arguments: ParsedArguments) throws -> [KeySource] {
        try also.flatMap { option in
            try (arguments.has(option.name) ? [""] : arguments.values(option.name)).map { value in
                try source(option.name, value, arguments)
            }
        }
    }

    /// The chosen source; without one the command prompts at the terminal.
    ///
    /// - Parameter isNew: Whether the key is for a store that does not exist yet, so that the prompt comes twice.
    /// - Throws: ``UsageError`` when several sources are named, or none where there is no terminal; `StoreError`
    ///   `invalidKey` for a command line that cannot be parsed.
    static func source(
        _ arguments: ParsedArguments, isNew: Bool = false, hasTerminal: Bool = canPrompt
    ) throws -> KeySource {
        try source(arguments, opening, "key", isNew: isNew, hasTerminal: hasTerminal)
    }

    /// The source of the new key; without one the command prompts at the terminal, twice.
    ///
    /// - Throws: As ``source(_:isNew:hasTerminal:)``.
    static func newSource(_ arguments: ParsedArguments, hasTerminal: Bool = canPrompt) throws -> KeySource {
        try source(arguments, new, "new key", isNew: true, hasTerminal: hasTerminal)
    }

    /// Whether a source of the key was named.
    static func isGiven(_ arguments: ParsedArguments) -> Bool { opening.contains { $0.isGiven(arguments) } }

    /// Whether a source of the new key was named.
    static func isNewGiven(_ arguments: ParsedArguments) -> Bool { new.contains { $0.isGiven(arguments) } }

    private static func source(
        _ arguments: ParsedArguments, _ options: [OptionSyntax], _ noun: String, isNew: Bool, hasTerminal: Bool
    ) throws -> KeySource {
        let given = options.filter { $0.isGiven(arguments) }.map { ($0.name, arguments.value($0.name) ?? "") }
        guard given.count <= 1 else {
            throw UsageError(
                "Several \(noun)s were given: \(given.map(\.0).joined(separator: ", ")).",
                hint: "Give exactly one of them.")
        }
        guard let (name, value) = given.first else {
            guard hasTerminal else {
                throw UsageError(
                    "No \(noun) was given, and there is no terminal to ask at.",
                    hint: "Give one of: \(forms(options, arguments))."
                        + (options == opening ? keyless(arguments) : ""))
            }
            let start = options == invitation ? "Passphrase of the invitation: " : nil
            return isNew
                ? .prompt(start ?? "New passphrase: ", confirmation: "The same again: ")
                : .prompt(start ?? "Passphrase: ")
        }
        return try RecoveryShareOptions.source(name, arguments) ?? source(name, value, arguments)
    }

    /// The options that the command has.
    private static func forms(_ options: [OptionSyntax], _ arguments: ParsedArguments) -> String {
        options.filter { arguments.offers($0.name) }.map(\.form).joined(separator: ", ")
    }

    /// How the command goes without a key, as a sentence; empty where it does not.
    private static func keyless(_ arguments: ParsedArguments) -> String {
        if arguments.offers("--no-key") { return " Or give --no-key: then nothing is authenticated." }
        return arguments.offers("--plain") ? " Or give --plain for a database that is not encrypted." : ""
    }

    private static func source(_ name: String, _ value: String, _ arguments: ParsedArguments) throws -> KeySource {
        let prefixes = ["--new-", "--also-", "--invitation-"]
        let plain = prefixes.reduce(name, { $0.replacing($1, with: "--") })
        switch plain {
        case "--key-plugin": return try DeviceOptions.plugin(value, arguments)
        case "--key-pkcs11": return try DeviceOptions.token(value, arguments)
        case "--key-tpm2": return try DeviceOptions.tpm2(arguments, called: name)
        default: return try source(plain, value, called: name)
        }
    }

    /// The source that an option without prefix names.
    ///
    /// - Parameter name: The option as it was given.
    static func source(_ option: String, _ value: String, called name: String) throws -> KeySource {
        switch option {
        case "--key-file": return .keyFile(path: value)
        case "--raw-key-file": return .rawKeyFile(path: value)
        case "--key-command":
            return try .command(line: value, timeout: commandTimeout(), environment: commandEnvironment())
        case "--key-env": return .environment(value)
        case "--key-credential": return .systemdCredential(value)
        default:
            guard let number = Int32(value), number >= 0 else {
                throw UsageError(
                    "\(name) needs the number of a file descriptor.", hint: "For example: \(name) 3 3< key")
            }
            // Another one may be the program's own, from which nobody ever reads a key.
            try InheritedDescriptors.require(number)
            return .fileDescriptor(number)
        }
    }

    /// The names of the environment variables that a key command gets besides the usual ones.
    static func commandEnvironment(
        environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }
    ) -> [String] {
        let names = environment("CIPHERSTORE_KEY_COMMAND_ENVIRONMENT").map { String(decoding: $0, as: UTF8.self) } ?? ""
        return names.split { $0 == "," || $0.isWhitespace }.map(String.init)
    }

    /// How long a key command may run.
    ///
    /// - Throws: ``UsageError`` when the environment variable is not a duration.
    static func commandTimeout(
        environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }
    ) throws(UsageError) -> Duration {
        let name = "CIPHERSTORE_KEY_COMMAND_TIMEOUT"
        guard let value = environment(name), !value.isEmpty else { return CustodyLimits.keyCommandWait }
        guard let seconds = AgeText.seconds(String(decoding: value, as: UTF8.self)), seconds > 0 else {
            throw UsageError("\(name) is not a duration.", hint: "For example: 30s, 5m")
        }
        return .seconds(seconds)
    }

    /// Whether there is an interactive terminal, and standard input or standard error is connected to it.
    static var canPrompt: Bool {
        guard Terminal.isTerminal(0) || Terminal.isTerminal(2) else { return false }
        return (try? FileDescriptor(opening: "/dev/tty", .readWrite)) != nil
    }
}

extension OptionSyntax {
    /// Whether the option was given, with a value or without one.
    func isGiven(_ arguments: ParsedArguments) -> Bool { arguments.has(name) || arguments.value(name) != nil }
}
