/// How a new store keeps the key of its pages.
public enum KeyScheme: String, Sendable, Hashable, CaseIterable {
    /// A random data key, wrapped by a master key that each keyslot wraps: passphrases can be changed, added and
    /// removed in an instant, and the data key is rotated without any of them.
    case slots
    /// SQLCipher's own derivation: any SQLCipher 4 opens the file with the passphrase. A new passphrase requires
    /// encrypting every page again.
    case direct
}
