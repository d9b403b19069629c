/// How a new store keeps the key of its pages.
public enum KeyScheme: String, Sendable, Hashable, CaseIterable {
    /// A random data key, wrapped by a master key that each key slot wraps: passphrases can be changed, added and
    /// removed in an instant, and the data key is rotated without any of them.
    case slots
    /// SQLCipher's own derivation: any SQLCipher 4 opens the file with the passphrase, and another passphrase means to
    /// encrypt every page anew.
    case direct
}
