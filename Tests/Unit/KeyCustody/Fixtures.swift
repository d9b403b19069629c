import Foundation
import StoreCrypto
import Testing

@testable import KeyCustody

/// Keys and sidecars of the tests. No key here is derived: only derivation tests pay for that.
enum Fixture {
    static let keyBytes = [UInt8](0..<32)

    static func dataKey(_ first: UInt8 = 0) throws -> DataKey {
        try DataKey(SecretBytes(copying: keyBytes.map { $0 ^ first }))
    }

    static func salt(_ first: UInt8 = 0) throws -> Salt { try Salt(bytes: (0..<16).map { $0 ^ first }) }

    static func storeID(_ first: UInt8 = 0) throws -> StoreID {
        try #require(StoreID(bytes: (0..<16).map { ($0 + 0xa0) ^ first }))
    }

    static func sidecar(
        generation: UInt64 = 3, state: Sidecar.State = .ready, id: UInt8 = 0, salt: UInt8 = 0
    ) throws -> Sidecar {
        Sidecar(
            storeID: try storeID(id), state: state, epoch: 1, generation: generation, salt: try Self.salt(salt),
            settings: .plaintextHeader)
    }
}

extension Sidecar {
    /// The bytes of the file of a direct store, sealed with its data key.
    func encoded(dataKey: DataKey) throws -> [UInt8] { try encoded(keys: .direct(dataKey)) }
}

extension UnauthenticatedSidecar {
    /// Authenticates the file of a direct store with its data key.
    func authenticate(dataKey: DataKey) throws -> Verdict { try authenticate(.direct(dataKey)) }
}

extension SidecarKeys {
    /// The data key of the next epoch; nil where ``successor(of:)`` is.
    func pendingDataKey(of sidecar: Sidecar) throws -> DataKey? {
        guard let next = sidecar.successor else { return nil }
        return try successor(of: sidecar)?.dataKey(of: next)
    }
}

extension SidecarNote {
    /// Whether it may be the trace of an attack or of a mistake, and not of a crash.
    var isSuspicious: Bool {
        switch self {
        case .forged, .otherKey, .differing: true
        case .stale(let copy, _, _): copy == .main
        case .restoredFromBackup, .missing, .unreadable, .damaged: false
        }
    }
}

/// Random numbers that a seed repeats (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// The seed of `CIPHERSTORE_SEED`, or a random one; the test prints it when it fails.
    static func seed() -> UInt64 {
        ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap { UInt64($0) } ?? .random(in: .min ... .max)
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension String {
    var bytes: [UInt8] { Array(utf8) }
}

extension [UInt8] {
    var text: String { String(decoding: self, as: UTF8.self) }
}
