import CipherDatabase
import Foundation
import KeyCustody

extension StoreKeys {
    /// One way to open a store. It holds no secret.
    public struct Slot: Hashable, Sendable, Identifiable {
        /// The slot's number, from 1; a number is never used twice.
        public let number: UInt64
        /// The source of its key.
        public let kind: Kind
        /// The owner's label for it; may be empty.
        public let label: String
        /// When its key was set, by the clock of the process that set it.
        public let created: Date
        /// How its key is derived.
        public let derivation: Derivation

        public var id: UInt64 { number }

        init(_ slot: Keyslot) {
            number = slot.id
            kind = Kind(slot.kind)
            label = slot.label.text
            created = Date(timeIntervalSince1970: TimeInterval(slot.created))
            derivation = Derivation(slot.derivation)
        }
    }

    /// The source of the key of a slot.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A passphrase that a person remembers, from any source.
        case passphrase
        /// A file of 32 random bytes.
        case keyFile = "key-file"
        /// The output of a program.
        case command
        /// A credential that systemd passes to a service.
        case credential
        /// A random key that was printed and stored.
        case recovery

        init(_ kind: Keyslot.Kind) {
            switch kind {
            case .passphrase: self = .passphrase
            case .keyFile: self = .keyFile
            case .command: self = .command
            case .credential: self = .credential
            case .recovery: self = .recovery
            }
        }
    }

    /// How the key of a slot is derived. Parameters outside the bounds of the format are refused (`invalidKey`).
    public enum Derivation: Hashable, Sendable, CustomStringConvertible {
        /// HKDF alone, for random keys of full strength.
        case hkdf
        /// scrypt (RFC 7914) with N = 2^`log2Rounds`, 14 to 20, r = 8 and p = `lanes`, 1 to 4. It uses 2^`log2Rounds`
        /// KiB of memory.
        case scrypt(log2Rounds: Int, lanes: Int)
        /// Argon2id (RFC 9106). OpenSSL before 3.2 cannot open such a slot.
        case argon2id(memoryKiB: Int, iterations: Int, lanes: Int)

        /// scrypt with 128 MiB of memory, about 300 ms.
        public static let standard = Derivation(.standard)
        /// Argon2id with 64 MiB of memory, three passes and four lanes.
        public static let standardArgon2id = Derivation(.standardArgon2id)

        init(_ derivation: SlotDerivation) {
            switch derivation {
            case .hkdf: self = .hkdf
            case .scrypt(let log2Rounds, _, let lanes): self = .scrypt(log2Rounds: log2Rounds, lanes: lanes)
            case .argon2id(let memoryKiB, let iterations, let lanes):
                self = .argon2id(memoryKiB: memoryKiB, iterations: iterations, lanes: lanes)
            }
        }

        var slotDerivation: SlotDerivation {
            switch self {
            case .hkdf: .hkdf
            case .scrypt(let log2Rounds, let lanes): .scrypt(log2Rounds: log2Rounds, blockSize: 8, lanes: lanes)
            case .argon2id(let memoryKiB, let iterations, let lanes):
                .argon2id(memoryKiB: memoryKiB, iterations: iterations, lanes: lanes)
            }
        }

        public var description: String { slotDerivation.description }
    }

    /// How a store keeps its key, and which slots open it.
    public struct Summary: Hashable, Sendable {
        public let scheme: KeyScheme
        /// The epoch of the data key; 1 at first, incremented by each rotation.
        public let epoch: UInt64
        /// In the order of their numbers; none in a direct store.
        public let slots: [Slot]
        /// When the data key was made, or got its slots; nil in a direct store, which does not record it.
        public let dataKeyCreated: Date?
        /// Whether the store was direct once and still has that key: then **its former passphrase still opens the
        /// database**, without any slot, until the data key is rotated.
        public let formerPassphraseOpensPages: Bool

        package init(_ sidecar: Sidecar) {
            scheme = sidecar.slotted == nil ? .direct : .slots
            epoch = sidecar.epoch
            slots = sidecar.slots.map(Slot.init)
            dataKeyCreated = sidecar.slotted.map { Date(timeIntervalSince1970: TimeInterval($0.dataKey.created)) }
            formerPassphraseOpensPages = sidecar.slotted?.dataKey.origin == .direct
        }
    }
}
