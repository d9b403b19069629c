import KeyCustody

/// Keys as `StoreActor` names them.
public enum TestKeys {
    /// `raw` stands for a fixed raw key, which costs no derivation; everything else is a passphrase.
    public static func source(_ word: String) -> KeySource {
        word == "raw" ? .rawKey([UInt8](repeating: 0x2a, count: 32)) : .passphrase(word)
    }
}
