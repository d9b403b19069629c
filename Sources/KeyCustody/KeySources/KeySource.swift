import StoreCrypto
import StorePlatform

/// The source of a store's key. It is read when a store is opened, and again after the key of the store has changed.
///
/// Its description contains its kind and its file or variable, never the key.
public struct KeySource: Sendable {
    private let kind: Kind
    private var onTrial: (@Sendable (KeyslotTrial) -> Void)?

    private init(kind: Kind) { self.kind = kind }

    /// A source that returns a secret that was read already, for its kind of keyslot.
    package init(giving secret: Secret, name: String) { kind = .known(name: name, secret) }

    /// A device that keeps the secrets of its keyslots. It opens stores with keyslots of its kind, and no others.
    ///
    /// The source keeps what the device has given: it is asked once for a keyslot, however often the store is opened by
    /// this source or copies of it.
    ///
    /// - Parameter onAsk: Receives a sentence before the device is asked, because it or a person may take seconds.
    package static func token(
        _ device: any TokenDevice, onAsk: (@Sendable (String) -> Void)? = nil
    ) -> KeySource {
        KeySource(kind: .token(TokenSession(device, onAsk: onAsk)))
    }

    /// Whether a device keeps the secret.
    package var isDevice: Bool {
        switch kind {
        case .token: true
        case .known(_, let secret): secret.isDevice
        default: false
        }
    }

    /// Whether a person types the secret.
    package var isInteractive: Bool {
        if case .prompt = kind { true } else { false }
    }

    /// A path as it was given, for descriptions, and the file that it named then.
    private struct GivenPath: Sendable {
        let given: String
        let absolute: String

        init(_ path: String) { (given, absolute) = (path, Files.absolute(path)) }
    }

    private enum Kind: Sendable {
        case passphrase(SecretBytes)
        case rawKey(SecretBytes)
        case keyFile(GivenPath)
        case rawKeyFile(GivenPath)
        case fileDescriptor(Int32)
        case command([String], program: String, timeout: Duration, environment: [String])
        case environment(String)
        case systemdCredential(String)
        case prompt(String, confirmation: String?)
        case known(name: String, Secret)
        case token(TokenSession)
        case customPassphrase(name: String, @Sendable () throws -> Passphrase)
        case customRawKey(name: String, @Sendable () throws -> RawKey)
    }
}

extension KeySource {
    /// A passphrase that the program has in memory; it is kept in locked memory.
    public static func passphrase(_ text: String) -> KeySource {
        KeySource(kind: .passphrase(SecretBytes(copying: text.utf8)))
    }

    /// A passphrase of any bytes that the program has in memory; it is kept in locked memory.
    public static func passphrase(bytes: [UInt8]) -> KeySource {
        KeySource(kind: .passphrase(SecretBytes(copying: bytes)))
    }

    /// A key of exactly 32 bytes that the program has in memory; it is kept in locked memory.
    public static func rawKey(_ bytes: [UInt8]) -> KeySource {
        KeySource(kind: .rawKey(SecretBytes(copying: bytes)))
    }

    /// A file that contains a passphrase; one line end (`\n` or `\r\n`) at its end is removed.
    ///
    /// A file that its group or others may read or write is refused. Longest: 64 KiB. A relative path is made absolute
    /// here: the file is read again after a rotation, when the process may have another current directory.
    public static func keyFile(path: String) -> KeySource { KeySource(kind: .keyFile(GivenPath(path))) }

    /// A file of exactly 32 random bytes; its permissions are checked like those of a key file.
    public static func rawKeyFile(path: String) -> KeySource { KeySource(kind: .rawKeyFile(GivenPath(path))) }

    /// An open descriptor from which a passphrase is read to its end; one line end at its end is removed.
    ///
    /// It stays open and can be read only once.
    public static func fileDescriptor(_ number: Int32) -> KeySource { KeySource(kind: .fileDescriptor(number)) }

    /// A program that prints a passphrase; one line end at its end is removed.
    ///
    /// - Parameters:
    ///   - arguments: The program, found by `PATH`, and its arguments. No shell is involved. A relative path of the
    ///     program is made absolute here; relative paths in its arguments are its own, and are taken from the current
    ///     directory at each reading.
    ///   - timeout: The longest time it may run. After that it is killed, with the programs that it has started. Its
    ///     output until its end is the key. A program that it leaves in the background is killed, unless that program
    ///     has a session of its own.
    ///   - environment: The names of environment variables that it gets, besides ``commandEnvironment``. It gets no other
    ///     ones: the environment may contain secrets that are not meant for it.
    public static func command(
        _ arguments: [String], timeout: Duration = .seconds(30), environment: [String] = []
    ) -> KeySource {
        let name = arguments.first ?? ""
        return KeySource(
            kind: .command(
                arguments, program: name.contains("/") ? Files.absolute(name) : name, timeout: timeout,
                environment: environment))
    }

    /// The names of the environment variables that every key command gets: what programs need to find themselves, their
    /// files and agents, and to speak the language of the user. At a terminal it also gets
    /// `CIPHERSTORE_KEY_PROGRAM`, a random value by which the programs that it leaves are found.
    public static let commandEnvironment = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES",
        "TZ",
        "TERM", "GPG_TTY", "GNUPGHOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY",
        "WAYLAND_DISPLAY", "CREDENTIALS_DIRECTORY",
    ]

    /// A program as one line that is split into words: blanks separate words, `'...'` and `"..."` quote, `\` escapes.
    /// No shell is involved, so nothing is expanded, piped or substituted.
    ///
    /// - Parameters: As ``command(_:timeout:environment:)``.
    /// - Throws: `StoreError` `invalidKey` when a quote is left open or there is no word.
    public static func command(
        line: String, timeout: Duration = .seconds(30), environment: [String] = []
    ) throws(StoreError) -> KeySource {
        guard let words = Subprocess.words(of: line), words.first?.isEmpty == false else {
            throw StoreError(
                .invalidKey, what: "The key command cannot be understood.",
                why: "It is empty, or a quote or backslash in it is left open.",
                remedy: "Close every quote; for pipes and variables write: sh -c '...'.")
        }
        return .command(words, timeout: timeout, environment: environment)
    }

    /// An environment variable that contains a passphrase.
    ///
    /// Environments leak: into child processes, crash reports and `/proc`. Prefer any other source (``warning``).
    public static func environment(_ name: String) -> KeySource { KeySource(kind: .environment(name)) }

    /// A systemd credential that contains a passphrase: a file of this name in `$CREDENTIALS_DIRECTORY`.
    ///
    /// - SeeAlso: <https://systemd.io/CREDENTIALS/>
    public static func systemdCredential(_ name: String) -> KeySource { KeySource(kind: .systemdCredential(name)) }

    /// A passphrase typed at the terminal, without echo.
    ///
    /// - Parameter confirmation: A second prompt, for new passphrases: both entries must be equal.
    public static func prompt(_ text: String, confirmation: String? = nil) -> KeySource {
        KeySource(kind: .prompt(text, confirmation: confirmation))
    }

    /// A passphrase that the program fetches when the source is read.
    ///
    /// - Parameter name: The name of the source in descriptions and errors.
    public static func custom(_ name: String, _ passphrase: @escaping @Sendable () throws -> Passphrase) -> KeySource {
        KeySource(kind: .customPassphrase(name: name, passphrase))
    }

    /// A raw key that the program fetches when the source is read.
    ///
    /// - Parameter name: The name of the source in descriptions and errors.
    public static func customRawKey(_ name: String, _ key: @escaping @Sendable () throws -> RawKey) -> KeySource {
        KeySource(kind: .customRawKey(name: name, key))
    }

    /// The same source, with a function that receives each trial of its passphrase on a keyslot with a slow derivation,
    /// so that a program can say why an opening takes seconds.
    ///
    /// The function is called on the thread that opens the store, before each trial and once after the last one. It must
    /// not open a store.
    public func reportingTrials(_ report: @escaping @Sendable (KeyslotTrial) -> Void) -> KeySource {
        var source = self
        source.onTrial = report
        return source
    }

    /// A warning for the user about the risk of this source; nil when there is none.
    public var warning: String? {
        guard case .environment(let name) = kind else { return nil }
        return "the key comes from the environment variable \(name): child processes inherit it, and every process of "
            + "the same user can read it in /proc; prefer a key file, a file descriptor or a systemd credential"
    }
}

extension KeySource: CustomStringConvertible, CustomReflectable {
    public var description: String {
        switch kind {
        case .passphrase: "passphrase"
        case .rawKey: "raw key"
        case .keyFile(let path): "key file \"\(path.given)\""
        case .rawKeyFile(let path): "raw key file \"\(path.given)\""
        case .fileDescriptor(let number): "file descriptor \(number)"
        // Only the program: its arguments may be secrets.
        case .command(let arguments, _, _, _): "command \"\(arguments.first ?? "")\""
        case .environment(let name): "environment variable \(name)"
        case .systemdCredential(let name): "systemd credential \"\(name)\""
        case .prompt: "prompt"
        case .token(let session): session.device.name
        case .known(let name, _), .customPassphrase(let name, _), .customRawKey(let name, _): name
        }
    }

    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension KeySource {
    /// The kind of slot that a secret from this source gets.
    package var slotKind: Keyslot.Kind {
        switch kind {
        case .known(_, let secret): secret.slotKind ?? (secret.isPassphrase ? .passphrase : .keyFile)
        case .token(let session): session.device.kind
        case .rawKey, .rawKeyFile, .customRawKey: .keyFile
        case .command: .command
        case .systemdCredential: .credential
        case .passphrase, .keyFile, .fileDescriptor, .environment, .prompt, .customPassphrase: .passphrase
        }
    }

    /// Reads the key from the source.
    ///
    /// - Throws: `StoreError` `keyMissing` when the source has no key, `invalidKey` when its content cannot be a key or
    ///   must not be used; ``SystemError`` when a file cannot be read; what a custom source throws.
    package func read() throws -> Secret { try readSecret().with(slotKind: slotKind).reporting(onTrial) }

    private func readSecret() throws -> Secret {
        switch kind {
        case .passphrase(let bytes): return .passphrase(try Passphrase(bytes))
        case .rawKey(let bytes): return .rawKey(try RawKey(bytes))
        case .known(_, let secret): return secret
        case .token(let session):
            session.beginReading()
            return .device(session)
        case .keyFile(let path): return try passphrase(KeyFile.contents(of: path.absolute, checkingPermissions: true))
        case .rawKeyFile(let path):
            let bytes = try KeyFile.contents(of: path.absolute, checkingPermissions: true)
            return .rawKey(try RawKey(bytes.withBytes { SecretBytes(copying: $0) }))
        case .fileDescriptor(let number):
            let file = try FileDescriptor(duplicating: number, path: description)
            return try passphrase(KeyFile.contents(of: file))
        case .command(let arguments, let program, let timeout, let environment):
            return try passphrase(output(of: [program] + arguments.dropFirst(), timeout, environment))
        case .environment(let name): return try readEnvironment(name)
        case .systemdCredential(let name):
            return try passphrase(KeyFile.contents(of: credentialPath(name), checkingPermissions: false))
        case .prompt(let text, let confirmation): return try ask(text, confirmation)
        case .customPassphrase(_, let read): return .passphrase(try read())
        case .customRawKey(_, let read): return .rawKey(try read())
        }
    }

    /// Makes a passphrase of the bytes of a source, without one line end.
    private func passphrase(_ source: consuming WipedBuffer) throws -> Secret {
        var bytes = source
        guard bytes.count > 0 else { throw missing("It gave no bytes: it is empty, or was read before.") }
        if bytes.withBytes({ $0.last == UInt8(ascii: "\n") }) {
            bytes.removeLast(1)
            if bytes.withBytes({ $0.last == UInt8(ascii: "\r") }) { bytes.removeLast(1) }
            guard bytes.count > 0 else { throw missing("It holds an end of line and nothing else.") }
        }
        return try plainPassphrase(bytes)
    }

    private func plainPassphrase(_ bytes: borrowing WipedBuffer) throws(StoreError) -> Secret {
        .passphrase(try Passphrase(bytes.withBytes { SecretBytes(copying: $0) }))
    }

    private func missing(
        _ reason: String, _ remedy: String = "Check the source, or give the key in another way."
    ) -> StoreError {
        StoreError(
            .keyMissing, what: "The key source (\(description)) gave no key.", why: reason, remedy: remedy)
    }

    private func readEnvironment(_ name: String) throws(StoreError) -> Secret {
        let value = ProcessInspector.withEnvironmentValue(name) { SecretBytes(copying: $0) }
        guard let value, value.count > 0 else { throw missing("The variable is not set, or is empty.") }
        return .passphrase(try Passphrase(value))
    }

    private func credentialPath(_ name: String) throws(StoreError) -> String {
        // With an empty value the path would be in the root directory.
        guard let folder = ProcessInspector.environmentValue("CREDENTIALS_DIRECTORY"), !folder.isEmpty else {
            throw missing("CREDENTIALS_DIRECTORY is not set: this process was not started by systemd with credentials.")
        }
        guard !name.isEmpty, name != ".", name != "..", !name.contains("/") else {
            throw StoreError(
                .invalidKey, what: "The name of the systemd credential cannot be used.",
                why: "It is empty or would name a file elsewhere.", remedy: "Give the name as the unit file does.")
        }
        return String(decoding: folder, as: UTF8.self) + "/" + name
    }

    private func output(
        of arguments: [String], _ timeout: Duration, _ environment: [String]
    ) throws(StoreError) -> WipedBuffer {
        do {
            return try Subprocess.output(
                of: arguments, environment: Self.commandEnvironment + environment,
                limitBytes: CustodyLimits.keySourceBytes,
                timeout: timeout)
        } catch {
            switch error {
            case .cannotRun(let failure): throw missing("It could not be run: \(failure).")
            case .timedOut(let limit):
                throw missing("It did not end within \(CountText.seconds(limit)) and was killed.")
            case .outputTooLong: throw missing("It printed more than 64 KiB.")
            case .exited(let status):
                throw missing(
                    "It ended with status \(status).",
                    "Check the command. It gets a part of the environment only: name the further variables that it needs "
                        + "(CIPHERSTORE_KEY_COMMAND_ENVIRONMENT for cipherctl).")
            case .killed(let signal): throw missing("It was ended by signal \(signal).")
            }
        }
    }

    private func ask(_ text: String, _ confirmation: String?) throws(StoreError) -> Secret {
        let first = try typed(text)
        guard first.count > 0 else { throw missing("Nothing was typed.") }
        if let confirmation {
            let second = try typed(confirmation)
            let isSame = first.withBytes { first in second.withBytes { first.elementsEqual($0) } }
            guard isSame else { throw missing("The two entries differ.") }
        }
        return try plainPassphrase(first)
    }

    private func typed(_ text: String) throws(StoreError) -> WipedBuffer {
        do {
            return try Terminal.readWithoutEcho(prompt: text)
        } catch {
            throw missing(error.description)
        }
    }
}
