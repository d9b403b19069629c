import CipherStore
import Foundation
import KeyCustody
import StoreCrypto

/// The key of a store, asked for once and used for several openings: descriptors, commands and people answer once.
struct UnlockedKey: Sendable {
    let secret: Secret
    private let name: String

    /// - Throws: What the source throws.
    init(_ source: KeySource, _ console: Console) throws {
        if let warning = source.warning { console.warn(warning) }
        name = source.description
        secret = try source.read()
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

    /// A recovery key as a program that reads it gets it.
    init(_ recovery: RecoveryKey) throws {
        name = "recovery key"
        secret = .passphrase(try Passphrase(recovery.text())).with(slotKind: .recovery)
    }

    /// A key that is known already, to be used without derivation.
    init(raw key: DataKey) {
        name = "data key"
        secret = .rawKey(key)
    }

    /// The same key as a source that answers as often as it is asked.
    var source: KeySource { KeySource(giving: secret, name: name) }

    /// The keys of a sidecar that this key opens, or nil when it opens none of its slots.
    func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try secret.unlock(claimed) }

    /// Whether it is a passphrase, and no raw key.
    var isPassphrase: Bool { secret.isPassphrase }

    /// Opens something with the key. Where it is refused and reads like a recovery key, the error says what is wrong with it.
    func explainingRefusal<Success>(_ open: () throws -> Success) throws -> Success {
        do {
            return try open()
        } catch let error as StoreError where error.code == .wrongKey {
            guard let fault = recoveryKeyFault else { throw error }
            throw StoreError(
                .wrongKey, what: error.what, why: "It reads like a recovery key, but \(fault).",
                remedy: "Compare it with what was printed; if it is another key, check that one.")
        }
    }

    /// What is wrong with a recovery key; nil for a right one, and for what does not read like one.
    private var recoveryKeyFault: RecoveryKey.ReadingError? {
        isPassphrase ? secret.withBytes { Self.fault($0) } : nil
    }

    private static func fault(_ text: UnsafeRawBufferPointer) -> RecoveryKey.ReadingError? {
        do throws(RecoveryKey.ReadingError) {
            _ = try RecoveryKey(reading: text)
            return nil
        } catch {
            return error == .otherText ? nil : error
        }
    }

    /// The data key under a salt; a passphrase is derived.
    func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try secret.dataKey(salt: salt, settings: settings)
    }

    /// Gives the key to a connection that is being prepared by hand.
    func give(to db: Database) throws {
        try secret.withBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            // Not a copy: the bytes stay in locked memory.
            let borrowed = Data(
                bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count, deallocator: .none)
            try isPassphrase ? db.usePassphrase(borrowed) : db.useRawKey(borrowed)
        }
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
