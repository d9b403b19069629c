import CipherStore
import StorePlatform

/// How the key of a store is kept, according to `--scheme`.
enum Scheme {
    /// - Parameter usual: The default.
    static func option(_ usual: String) -> OptionSyntax {
        OptionSyntax("--scheme", value: "slots|direct", "how the key is stored; \(usual)")
    }

    static let note =
        "Slots: a random data key that several keys can open (cipherctl key add), each of which can be changed "
        + "without re-encrypting a page. Direct: SQLCipher's own derivation, so that any SQLCipher 4 opens the "
        + "file with the passphrase, "
        + "and another passphrase means re-encrypting every page."

    /// - Returns: nil when it was not given.
    /// - Throws: ``UsageError`` for a scheme that does not exist.
    static func parse(_ arguments: ParsedArguments) throws(UsageError) -> KeyScheme? {
        guard let name = arguments.value("--scheme") else { return nil }
        guard let scheme = KeyScheme(rawValue: name) else {
            throw UsageError("There is no such scheme.", hint: "Give --scheme slots or --scheme direct.")
        }
        return scheme
    }
}

/// The permissions of a new store's files, according to `--mode`.
enum FileMode {
    static let option = OptionSyntax(
        "--mode", value: "MODE",
        "who may use the files of the store: 0600 (its owner alone, unless given), 0640, 0644, 0660 or 0664")

    static let note =
        "Every file of the store has the mode of the database, also later, and the umask does not change it. "
        + "Users of a group "
        + "share a store of mode 0660, in a directory of that group with the setgid bit."

    /// - Returns: nil when it was not given.
    /// - Throws: ``UsageError`` for an invalid mode of a store.
    static func parse(_ arguments: ParsedArguments) throws(UsageError) -> Int? {
        guard let text = arguments.value(option.name) else { return nil }
        let isOctal = !text.isEmpty && text.count <= 5 && text.allSatisfy { ("0"..."7").contains($0) }
        guard isOctal, let mode = Int(text, radix: 8), Configuration.fileModes.contains(mode) else {
            throw UsageError(
                "--mode does not accept this "
                    + "value.", hint: "Give --mode 0600, 0640, 0644, 0660 or 0664: chmod can do the rest."
            )
        }
        return mode
    }
}
