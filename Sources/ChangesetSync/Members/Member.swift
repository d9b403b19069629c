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
package struct Member: Hashable, Sendable {
    package let id: ReplicaID
    /// Verifies the signatures of the replica.
    package let verifyingKey: VerifyingKey
    /// The X25519 key for which secrets of epochs are sealed: 32 bytes.
    package let agreementBytes: [UInt8]
    /// For people, for example the name of a device. At most ``ExchangeLimits/memberNameBytes``.
    package let name: String

    package init(id: ReplicaID, verifyingKey: VerifyingKey, agreementBytes: [UInt8], name: String) {
        self.id = id
        self.verifyingKey = verifyingKey
        self.agreementBytes = agreementBytes
        self.name = name
    }
}

/// A replica with its private keys.
package struct ReplicaKeys: Sendable {
    package let id: ReplicaID
    package let signing: SigningKey
    package let agreement: AgreementKey

    package init(id: ReplicaID, signing: SigningKey, agreement: AgreementKey) {
        self.id = id
        self.signing = signing
        self.agreement = agreement
    }

    package static func random() throws(CryptoError) -> ReplicaKeys {
        guard let id = ReplicaID(bytes: try SystemRandom.bytes(ReplicaID.byteCount)) else {
            preconditionFailure("The generator gave another number of bytes.")
        }
        return ReplicaKeys(id: id, signing: try .random(), agreement: try .random())
    }

    package func member(named name: String) -> Member {
        Member(id: id, verifyingKey: signing.verifyingKey, agreementBytes: agreement.publicBytes, name: name)
    }
}

extension ReplicaKeys: CustomStringConvertible, CustomReflectable {
    package var description: String { "ReplicaKeys(\(id))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
