import CipherStore
import Foundation
import KeyCustody
import StoreCrypto

/// The key of a store, asked for once and used for several openings: descriptors, commands and people answer once.
final class UnlockedKey: Sendable {
    private let material: KeyMaterial
    private let name: String
    /// The kind of slot that the key gets in a new store.
    private let slotKind: KeySlot.Kind?

    /// - Throws: What the source throws.
    init(_ source: KeySource, _ console: Console) throws {
        if let warning = source.warning { console.warn(warning) }
        name = source.description
        slotKind = source.slotKind
        material = try source.read()
    }

    /// A key with which a store is made, or which opens one from now on: a weak passphrase gets a warning.
    ///
    /// - Throws: What the source throws.
    convenience init(new source: KeySource, _ console: Console) throws {
        try self.init(source, console)
        if isWeak { console.warn(PassphraseStrength.warning) }
    }

    /// Whether it is a passphrase that can be guessed.
    private var isWeak: Bool {
        switch material {
        // A recovery key is drawn, and long.
        case .passphrase(let passphrase):
            slotKind != .recovery && passphrase.secret.withBytes { PassphraseStrength.isWeak($0) }
        case .rawKey: false
        }
    }

    /// A recovery key as a program that reads it gets it.
    init(_ recovery: borrowing RecoveryKey) throws {
        name = "recovery key"
        slotKind = .recovery
        material = .passphrase(try Passphrase(recovery.text()))
    }

    /// A key that is known already, to be used without derivation.
    init(raw key: DataKey) throws {
        name = "data key"
        slotKind = nil
        material = .rawKey(try RawKey(key.withSecret { $0.copy() }))
    }

    /// The same key as a source that answers as often as it is asked.
    var source: KeySource {
        let source: KeySource =
            material.isPassphrase
            ? .custom(name) { [self] in try passphraseCopy() } : .customRawKey(name) { [self] in try rawKeyCopy() }
        return slotKind.map { source.answering(for: $0) } ?? source
    }

    /// The keys of a sidecar that this key opens, or nil when it opens none of its slots.
    func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try material.unlock(claimed) }

    /// Whether it is a passphrase, and no raw key.
    var isPassphrase: Bool { material.isPassphrase }

    /// A key slot that this key opens.
    func newSlot(kind: KeySlot.Kind, label: SlotLabel, derivation: SlotDerivation?) throws -> NewSlot {
        try NewSlot(copy(), kind: kind, label: label, derivation: derivation)
    }

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
        switch material {
        case .passphrase(let passphrase): passphrase.secret.withBytes { Self.fault($0) }
        case .rawKey: nil
        }
    }

    private static func fault(_ text: UnsafeRawBufferPointer) -> RecoveryKey.ReadingError? {
        do throws(RecoveryKey.ReadingError) {
            _ = try RecoveryKey(reading: text)
            return nil
        } catch {
            return error == .otherText ? nil : error
        }
    }

    /// Lends the key.
    func withMaterial<Result>(_ body: (borrowing KeyMaterial) throws -> Result) rethrows -> Result {
        try body(material)
    }

    private func copy() throws -> KeyMaterial {
        switch material {
        case .passphrase(let passphrase): .passphrase(try Passphrase(passphrase.secret.copy()))
        case .rawKey(let key): .rawKey(try RawKey(key.secret.copy()))
        }
    }

    /// The data key under a salt; a passphrase is derived.
    func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try material.dataKey(salt: salt, settings: settings)
    }

    /// Gives the key to a connection that is being prepared by hand.
    func give(to db: Database) throws {
        switch material {
        case .passphrase(let passphrase):
            try passphrase.secret.withBytes { bytes in
                guard let start = bytes.baseAddress else { return }
                // Not a copy: the bytes stay in locked memory.
                let borrowed = UnsafeMutableRawPointer(mutating: start)
                try db.usePassphrase(Data(bytesNoCopy: borrowed, count: bytes.count, deallocator: .none))
            }
        case .rawKey(let key): try db.useRawKey(key)
        }
    }

    // Each is asked for only where the other kind was ruled out; a raw key is no passphrase whatever happens.
    private func passphraseCopy() throws -> Passphrase {
        switch material {
        case .passphrase(let passphrase): try Passphrase(passphrase.secret.copy())
        case .rawKey: throw UsageError("The key is a raw key.", hint: "Give a passphrase.")
        }
    }

    private func rawKeyCopy() throws -> RawKey {
        switch material {
        case .passphrase: throw UsageError("The key is a passphrase.", hint: "Give a raw key.")
        case .rawKey(let key): try RawKey(key.secret.copy())
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
