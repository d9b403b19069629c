import Foundation
import KeyCustody
import StoreTools

extension UnlockedKey {
    /// - Throws: What the source throws.
    init(_ source: KeySource, _ console: Console) throws {
        if let warning = source.warning { console.warn(warning) }
        try self.init(source)
    }

    /// A key with which a store is made, or which opens one from now on: a weak passphrase gets a warning.
    ///
    /// - Throws: What the source throws.
    init(new source: KeySource, _ console: Console) throws {
        try self.init(source, console)
        // A recovery key is drawn, and long.
        if source.slotKind != .recovery, secret.isPassphrase, secret.withBytes({ PassphraseStrength.isWeak($0) }) {
            console.warn(PassphraseStrength.warning)
        }
    }
}

extension ToolKey {
    /// The key that the options name, for a store that exists.
    init(_ arguments: ParsedArguments) {
        self.init(
            source: { try KeyOptions.source(arguments) },
            read: { try UnlockedKey($0, Console(isJSON: false)) })
    }

    /// The key that the options name, for a store that is made.
    ///
    /// - Parameter asksTwice: Whether a terminal is asked twice, because nothing shows that the key is right.
    init(new arguments: ParsedArguments, asksTwice: Bool) {
        self.init(
            source: { try KeyOptions.source(arguments, isNew: asksTwice) },
            read: { try UnlockedKey(new: $0, Console(isJSON: false)) })
    }
}

/// A bound for how many passphrases somebody has to try who knows of one nothing but its length and its kinds of characters.
enum PassphraseStrength {
    /// A derivation costs an attacker with special machines some microseconds: 2^64 of them take thousands of years.
    private static let enoughBits = 64.0

    static let warning =
        "the passphrase is short or has few different characters. Whoever gets a copy of the store's files can try "
        + "passphrases on machines of their own, as many and as fast as they like; no lock stops them. Better: six random "
        + "words, or 32 random bytes as a key file (cipherctl help keys). It was accepted"

    /// Whether it has fewer possibilities than an attacker can try.
    static func isWeak(_ bytes: UnsafeRawBufferPointer) -> Bool { bits(bytes) < enoughBits }

    /// The most that a passphrase of this length, with characters of these kinds, can have of them.
    private static func bits(_ bytes: UnsafeRawBufferPointer) -> Double {
        var (kinds, isKnown) = ([Double](repeating: 0, count: 5), [Bool](repeating: false, count: 256))
        var different = 0
        for byte in bytes {
            if !isKnown[Int(byte)] { different += 1 }
            isKnown[Int(byte)] = true
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): kinds[0] = 26
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): kinds[1] = 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): kinds[2] = 10
            case 0..<0x80: kinds[3] = 33
            default: kinds[4] = 64
            }
        }
        // What repeats itself adds little: the same four characters over and over are no long passphrase.
        let length = min(bytes.count, different * 3)
        return Double(length) * log2(max(1, kinds.reduce(0, +)))
    }
}
