import KeyCustody

/// Keys as `StoreActor` names them.
public enum TestKeys {
    /// The key that `raw` stands for.
    public static let rawKey = [UInt8](repeating: 0x2a, count: 32)

    /// `raw` stands for a fixed raw key, which costs no derivation; everything else is a passphrase.
    public static func source(_ word: String) -> KeySource { word == "raw" ? .rawKey(rawKey) : .passphrase(word) }
}
