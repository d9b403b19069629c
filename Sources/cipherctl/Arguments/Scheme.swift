import CipherStore

/// How the key of a store is kept, as `--scheme` says.
enum Scheme {
    /// - Parameter usual: What holds when it is not given.
    static func option(_ usual: String) -> OptionSyntax {
        OptionSyntax("--scheme", value: "slots|direct", "how the key is kept; \(usual)")
    }

    static let note =
        "Slots: a random data key that several keys can open (cipherctl key add), each of which can be changed in an "
        + "instant. Direct: SQLCipher's own derivation, so that any SQLCipher 4 opens the file with the passphrase, and "
        + "another passphrase means to encrypt every page anew."

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
