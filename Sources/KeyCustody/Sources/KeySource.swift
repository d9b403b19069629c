import StoreCrypto
import StorePlatform

/// Where the key of a store comes from. It is asked when a store is opened, and again after its key changed.
///
/// A description names the kind of the source and its file or variable, never the key.
public struct KeySource: Sendable {
    let kind: Kind
    /// The kind of slot that its secret gets, where that is not to be seen from the source itself.
    private(set) var givenSlotKind: KeySlot.Kind?

    init(kind: Kind) { self.kind = kind }

    /// The same source on behalf of another one, which was asked already.
    package func answering(for slotKind: KeySlot.Kind) -> KeySource {
        var source = self
        source.givenSlotKind = slotKind
        return source
    }

    enum Kind: Sendable {
        case passphrase(SecretBox)
        case rawKey(SecretBox)
        case keyFile(path: String)
        case rawKeyFile(path: String)
        case fileDescriptor(Int32)
        case command([String], timeout: Duration)
        case environment(String)
        case systemdCredential(String)
        case prompt(String, confirmation: String?)
        case customPassphrase(name: String, @Sendable () throws -> Passphrase)
        case customRawKey(name: String, @Sendable () throws -> RawKey)
    }

    /// A secret that several copies of a source share.
    final class SecretBox: Sendable {
        let secret: SecretBytes
        init(_ secret: consuming SecretBytes) { self.secret = secret }
    }
}

extension KeySource {
    /// A passphrase that the program has at hand; it is kept in locked memory.
    public static func passphrase(_ text: String) -> KeySource {
        KeySource(kind: .passphrase(SecretBox(SecretBytes(copying: text.utf8))))
    }

    /// A passphrase of any bytes that the program has at hand; it is kept in locked memory.
    public static func passphrase(bytes: [UInt8]) -> KeySource {
        KeySource(kind: .passphrase(SecretBox(SecretBytes(copying: bytes))))
    }

    /// A key of exactly 32 bytes that the program has at hand; it is kept in locked memory.
    public static func rawKey(_ bytes: [UInt8]) -> KeySource {
        KeySource(kind: .rawKey(SecretBox(SecretBytes(copying: bytes))))
    }

    /// A file that holds a passphrase; one line end (`\n` or `\r\n`) at its end is dropped.
    ///
    /// A file that its group or others may read or write is refused. Longest: 64 KiB.
    public static func keyFile(path: String) -> KeySource { KeySource(kind: .keyFile(path: path)) }

    /// A file of exactly 32 random bytes; its permissions are checked like those of a key file.
    public static func rawKeyFile(path: String) -> KeySource { KeySource(kind: .rawKeyFile(path: path)) }

    /// An open descriptor from which a passphrase is read to its end; one line end at its end is dropped.
    ///
    /// It stays open and can be read only once.
    public static func fileDescriptor(_ number: Int32) -> KeySource { KeySource(kind: .fileDescriptor(number)) }

    /// A program that prints a passphrase; one line end at its end is dropped.
    ///
    /// - Parameters:
    ///   - arguments: The program, found by `PATH`, and its arguments. No shell is involved.
    ///   - timeout: The longest time it may run; then it is killed, and so are the programs that it has started.
    public static func command(_ arguments: [String], timeout: Duration = .seconds(30)) -> KeySource {
        KeySource(kind: .command(arguments, timeout: timeout))
    }

    /// A program as one line that is split into words: blanks separate, `'...'` and `"..."` keep together, `\`
    /// protects. No shell is involved, so nothing is expanded, piped or substituted.
    ///
    /// - Throws: `StoreError` `invalidKey` when a quote is left open or there is no word.
    public static func command(
        line: String, timeout: Duration = .seconds(30)
    ) throws(StoreError) -> KeySource {
        guard let words = Subprocess.words(of: line), words.first?.isEmpty == false else {
            throw StoreError(
                .invalidKey, what: "The key command cannot be understood.",
                why: "It is empty, or a quote or backslash in it is left open.",
                remedy: "Close every quote; for pipes and variables write: sh -c '...'.")
        }
        return .command(words, timeout: timeout)
    }

    /// An environment variable that holds a passphrase.
    ///
    /// Environments leak: into child processes, crash reports and `/proc`. Prefer any other source (``warning``).
    public static func environment(_ name: String) -> KeySource { KeySource(kind: .environment(name)) }

    /// A systemd credential that holds a passphrase: a file of this name in `$CREDENTIALS_DIRECTORY`.
    ///
    /// - SeeAlso: <https://systemd.io/CREDENTIALS/>
    public static func systemdCredential(_ name: String) -> KeySource { KeySource(kind: .systemdCredential(name)) }

    /// A passphrase typed at the terminal, not shown.
    ///
    /// - Parameter confirmation: A second prompt, for new passphrases: both must be answered alike.
    public static func prompt(_ text: String, confirmation: String? = nil) -> KeySource {
        KeySource(kind: .prompt(text, confirmation: confirmation))
    }

    /// A passphrase that the program fetches when it is asked.
    ///
    /// - Parameter name: What descriptions and errors call the source.
    public static func custom(_ name: String, _ passphrase: @escaping @Sendable () throws -> Passphrase) -> KeySource {
        KeySource(kind: .customPassphrase(name: name, passphrase))
    }

    /// A raw key that the program fetches when it is asked.
    ///
    /// - Parameter name: What descriptions and errors call the source.
    public static func customRawKey(_ name: String, _ key: @escaping @Sendable () throws -> RawKey) -> KeySource {
        KeySource(kind: .customRawKey(name: name, key))
    }

    /// What the user should be told about the risk of this source, if anything.
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
        case .keyFile(let path): "key file \"\(path)\""
        case .rawKeyFile(let path): "raw key file \"\(path)\""
        case .fileDescriptor(let number): "file descriptor \(number)"
        // Only the program: arguments may be secrets themselves.
        case .command(let arguments, _): "command \"\(arguments.first ?? "")\""
        case .environment(let name): "environment variable \(name)"
        case .systemdCredential(let name): "systemd credential \"\(name)\""
        case .prompt: "prompt"
        case .customPassphrase(let name, _), .customRawKey(let name, _): name
        }
    }

    public var customMirror: Mirror { Mirror(self, children: []) }
}
