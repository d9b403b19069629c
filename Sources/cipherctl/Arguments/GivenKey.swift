import Foundation
import KeyCustody
import StoreTools

extension UnlockedKey {
    /// - Throws: What the source throws.
    init(_ source: KeySource, _ console: Console) throws {
        if let warning = source.warning { console.warn(warning) }
        let progress = ProgressBar("keyslots:")
        let reporting = source.reportingTrials { progress.show($0) }
        self = try Interruption.explainingPrompt { try Self(reporting) }
    }

    /// A key for a new store, or a new key of a store: a weak passphrase gets a warning.
    ///
    /// - Throws: What the source throws.
    init(new source: KeySource, _ console: Console) throws {
        try self.init(source, console)
        // A recovery key is random, and long.
        if source.slotKind != .recovery, secret.isPassphrase, secret.withBytes({ PassphraseStrength.isWeak($0) }) {
            console.warn(PassphraseStrength.warning)
        }
    }
}

extension ToolKey {
    /// The key that the options name, for an existing store.
    init(_ arguments: ParsedArguments) {
        self.init(
            source: { try KeyOptions.source(arguments) },
            read: { source in
                let key = try UnlockedKey(source, Console(isJSON: Console.manner.isJSON))
                // Tools read their key before they begin anything.
                Interruption.beginWork()
                return key
            })
    }

    /// The key that the options name, for a new store.
    ///
    /// - Parameter asksTwice: Whether to prompt twice at a terminal, because nothing proves that the key is right.
    init(new arguments: ParsedArguments, asksTwice: Bool) {
        self.init(
            source: { try KeyOptions.source(arguments, isNew: asksTwice) },
            read: { source in
                let key = try UnlockedKey(new: source, Console(isJSON: Console.manner.isJSON))
                Interruption.beginWork()
                return key
            })
    }
}

/// An upper bound for the number of passphrases that an attacker must try who knows only length and kinds of
/// characters.
enum PassphraseStrength {
    /// A derivation costs an attacker with special machines some microseconds: 2^64 of them take thousands of years.
    private static let enoughBits = 64.0

    static let warning =
        "the passphrase is short or has few different characters. Anybody who gets a copy of the store's files "
        + "can try passphrases on other machines, and nothing limits how many. Better: six random "
        + "words, or 32 random bytes as a key file (cipherctl help keys)"

    /// Whether there are fewer possibilities than an attacker can try.
    static func isWeak(_ bytes: UnsafeRawBufferPointer) -> Bool { bits(bytes) < enoughBits }

    /// The maximum number of bits of a passphrase of this length with characters of these kinds.
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
        // Repetition adds little: four characters repeated many times are not a long passphrase.
        let length = min(bytes.count, different * 3)
        return Double(length) * log2(max(1, kinds.reduce(0, +)))
    }
}
