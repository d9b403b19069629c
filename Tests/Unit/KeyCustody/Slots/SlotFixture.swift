import Foundation
import StoreCrypto
import StorePlatform

@testable import KeyCustody

/// Stores with key slots for tests. Passphrases get the smallest scrypt that the format allows.
enum SlotFixture {
    static let cheap = SlotDerivation.scrypt(log2Rounds: 14, blockSize: 8, lanes: 1)

    static func passphrase(_ text: String, label: String = "") throws -> NewSlot {
        try NewSlot(.passphrase(Passphrase(text)), label: SlotLabel(label), derivation: cheap)
    }

    static func keyFile(_ first: UInt8 = 0, label: String = "") throws -> NewSlot {
        try NewSlot(rawKey(first), label: SlotLabel(label))
    }

    static func rawKey(_ first: UInt8 = 0) throws -> Secret {
        .rawKey(try RawKey(bytes: Fixture.keyBytes.map { $0 ^ first }))
    }

    static func material(_ text: String) throws -> Secret { .passphrase(try Passphrase(text)) }

    /// A complete store with slots; key files only unless others are given, so that nothing is derived.
    static func store(_ slots: [NewSlot]? = nil) throws -> (sidecar: Sidecar, keys: SidecarKeys) {
        let made = try Sidecar.creating(settings: .plaintextHeader, slots: slots ?? [keyFile(0), keyFile(1)])
        return (made.sidecar.next(.ready), made.keys)
    }

    /// The same store while it is being rotated.
    static func rotating(_ made: (sidecar: Sidecar, keys: SidecarKeys)) throws -> Sidecar {
        try made.sidecar.rotating(
            to: Fixture.dataKey(0x77), salt: Fixture.salt(0x66), keys: made.keys, next: made.keys, now: 1_700_000_000)
    }

    /// The same store at the switch.
    static func switching(_ made: (sidecar: Sidecar, keys: SidecarKeys)) throws -> Sidecar {
        try rotating(made).announcingSwitch(pages: 7)
    }
}

extension SidecarKeys {
    var master: MasterKey? {
        if case .slots(let master, _) = self { master } else { nil }
    }
}

extension SecretBytes {
    func hex() -> String { withBytes { Hex.text(Array($0)) } }
}

extension DataKey {
    var hex: String { withBytes { Hex.text(Array($0)) } }
}
