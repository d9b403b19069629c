import CipherStore
import KeyCustody
import StoreCrypto

/// Keys as `StoreActor` names them.
public enum TestKeys {
    /// The key that `raw` stands for.
    public static let rawKey = [UInt8](repeating: 0x2a, count: 32)

    /// `raw` stands for a fixed raw key, which costs no derivation; everything else is a passphrase.
    public static func source(_ word: String) -> KeySource { word == "raw" ? .rawKey(rawKey) : .passphrase(word) }

    /// The key that a word stands for.
    package static func material(_ word: String) throws -> Secret { try source(word).read() }

    /// The cheapest derivation that the format of the sidecar allows, for passphrases whose cost is not the question.
    public static let cheap = StoreKeys.Derivation.scrypt(log2Rounds: 14, lanes: 1)

    /// Reads hexadecimal digits; wrong ones give nothing.
    public static func bytes(_ hex: String) -> [UInt8] { Hex.bytes(hex.utf8) ?? [] }

    /// Writes bytes as hexadecimal digits.
    public static func hex(_ bytes: [UInt8]) -> String { Hex.text(bytes) }
}

#if DEBUG
    /// The openings of stores by this process; release builds do not count.
    public enum KeyWork {
        /// Derivations of a key from a passphrase.
        public static var derivations: Int { WorkCount.derivations.current }
        /// Derivations, readings of both copies of a sidecar, and verifications of them.
        public static var all: [Int] {
            [derivations, WorkCount.sidecarReads.current, WorkCount.sidecarVerifications.current]
        }
    }
#endif
