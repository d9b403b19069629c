import StoreCrypto

/// The rights of a member. Each role includes those before it.
public enum Role: UInt8, Sendable, Comparable, CaseIterable {
    /// Reads commits and makes none.
    case reader = 0
    /// Makes commits and snapshots.
    case writer = 1
    /// Admits and removes members.
    case admin = 2

    public static func < (one: Role, other: Role) -> Bool { one.rawValue < other.rawValue }
}

/// The public part of a replica, as the list of members has it.
struct Member: Hashable, Sendable {
    let id: ReplicaID
    /// Verifies the signatures of the replica.
    let verifyingKey: VerifyingKey
    /// The X25519 key for which secrets of epochs are sealed: 32 bytes.
    let agreementBytes: [UInt8]
    /// For people, for example the name of a device. At most ``ExchangeLimits/memberNameBytes``.
    let name: String
}

/// A replica with its private keys.
package struct ReplicaKeys: Sendable {
    package let id: ReplicaID
    let signing: SigningKey
    let agreement: AgreementKey

    static func random() throws(CryptoError) -> ReplicaKeys {
        guard let id = ReplicaID(bytes: try SystemRandom.bytes(ReplicaID.byteCount)) else {
            preconditionFailure("The generator gave another number of bytes.")
        }
        return ReplicaKeys(id: id, signing: try .random(), agreement: try .random())
    }

    func member(named name: String) -> Member {
        Member(id: id, verifyingKey: signing.verifyingKey, agreementBytes: agreement.publicBytes, name: name)
    }
}

extension ReplicaKeys: CustomStringConvertible, CustomReflectable {
    package var description: String { "ReplicaKeys(\(id))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
