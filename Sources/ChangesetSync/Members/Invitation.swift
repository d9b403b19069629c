import KeyCustody
import StoreCrypto

/// The needs of a new device, without the inviting device: the place of the remote, the key of the invitation, and the secrets
/// that open the repository.
package struct InvitationContent: Sendable {
    package let repository: RepositoryID
    /// The record of the invitation in the list of members.
    let record: RecordHash
    /// Signs the entry of the new member.
    let key: SigningKey
    let rosterSecret: SecretBytes
    let epochs: EpochSecrets
    /// The place of the remote, or nothing.
    package let address: String
}

/// An invitation as a file: its content, locked by a passphrase or a key file (Docs/Formats/Members.md).
public struct Invitation: Sendable {
    package let bytes: [UInt8]
    package let repository: RepositoryID
    private let derivation: SlotDerivation
    private let salt: Salt

    enum Offset {
        static let magic = 0
        static let version = 4
        static let derivation = 5
        static let reserved = 18
        static let repository = 20
        static let salt = 36
        static let nonce = 52
        static let sealed = 64
    }

    static let magic = Array("CSI2".utf8)
    static let version: UInt8 = 1
    private static let label = "cipherstore invitation v2"
    static let limitBytes = 1024 * 1024

    /// Reads the bytes of an invitation. No key is needed for that.
    ///
    /// - Throws: ``MemberError`` `notAnInvitation`, `newerInvitation`, `damagedInvitation`.
    package init(bytes: [UInt8]) throws {
        guard bytes.prefix(Self.magic.count).elementsEqual(Self.magic), bytes.count > Offset.version,
            bytes.count <= Self.limitBytes
        else { throw MemberError.notAnInvitation }
        guard bytes[Offset.version] == Self.version else { throw MemberError.newerInvitation }
        guard bytes.count >= Offset.sealed + AuthenticatedEncryption.tagBytes,
            let derivation = SlotDerivation(encoded: Array(bytes[Offset.derivation..<Offset.reserved])),
            bytes[Offset.reserved..<Offset.repository].allSatisfy({ $0 == 0 }),
            let repository = RepositoryID(bytes: bytes[Offset.repository..<Offset.salt]),
            let salt = try? Salt(bytes: Array(bytes[Offset.salt..<Offset.nonce]))
        else { throw MemberError.damagedInvitation }
        self.bytes = bytes
        self.repository = repository
        self.derivation = derivation
        self.salt = salt
    }

    /// Locks an invitation.
    package init(_ content: InvitationContent, lockedBy secret: Secret) throws {
        let source = try SourceKey(of: secret, purpose: Self.label)
        var header = Self.magic + [Self.version] + source.derivation.encoded + [0, 0]
        header += content.repository.bytes + source.salt.bytes
        header += try SystemRandom.bytes(AuthenticatedEncryption.nonceBytes)
        let nonce = Array(header[Offset.nonce..<Offset.sealed])
        let sealed = try AuthenticatedEncryption.seal(
            content.plain(), key: source.key, nonce: nonce, additionalData: header)
        try self.init(bytes: header + sealed)
    }

    /// Unlocks it.
    ///
    /// - Throws: ``MemberError`` `wrongKeyOfInvitation`, `damagedInvitation`; `StoreError` `unsupportedLibrary`.
    package func open(with secret: Secret) throws -> InvitationContent {
        let source = try SourceKey(of: secret, purpose: Self.label, derivation: derivation, salt: salt)
        let header = Array(bytes[..<Offset.sealed])
        let opened = try AuthenticatedEncryption.open(
            Array(bytes[Offset.sealed...]), key: source.key, nonce: Array(header[Offset.nonce...]),
            additionalData: header)
        guard let opened else { throw MemberError.wrongKeyOfInvitation }
        guard let content = try InvitationContent(opened, repository: repository) else {
            throw MemberError.damagedInvitation
        }
        return content
    }
}

extension InvitationContent {
    private enum Offset {
        static let record = 0
        static let key = 32
        static let roster = 64
        static let epochCount = 96
        static let epochs = 98
    }
    private static let epochBytes = RecordHash.byteCount + EpochContent.secretBytes

    /// All secrets in one, in locked memory.
    fileprivate func plain() throws -> SecretBytes {
        let secrets = epochs.secrets.sorted { $0.key < $1.key }
        let text = Array(address.utf8)
        guard text.count <= ExchangeLimits.addressBytes, secrets.count <= Int(UInt16.max) else {
            throw MemberError.nameTooLong
        }
        return SecretBytes(count: Offset.epochs + secrets.count * Self.epochBytes + text.count) { output in
            func part(_ start: Int) -> UnsafeMutableRawBufferPointer {
                UnsafeMutableRawBufferPointer(rebasing: output[start...])
            }
            part(Offset.record).copyBytes(from: record.bytes)
            key.secret.withBytes { part(Offset.key).copyMemory(from: $0) }
            rosterSecret.withBytes { part(Offset.roster).copyMemory(from: $0) }
            output.storeBytes(of: UInt16(secrets.count).bigEndian, toByteOffset: Offset.epochCount, as: UInt16.self)
            for (index, entry) in secrets.enumerated() {
                let start = Offset.epochs + index * Self.epochBytes
                part(start).copyBytes(from: entry.key.bytes)
                entry.value.withBytes { part(start + RecordHash.byteCount).copyMemory(from: $0) }
            }
            part(output.count - text.count).copyBytes(from: text)
        }
    }

    /// - Returns: nil unless the lengths fit each other.
    fileprivate init?(_ plain: SecretBytes, repository: RepositoryID) throws {
        typealias Parts = (
            record: RecordHash, key: SecretBytes, roster: SecretBytes, epochs: EpochSecrets, address: String
        )
        let parts: Parts? = plain.withBytes { bytes in
            func secret(_ start: Int) -> SecretBytes {
                SecretBytes(copying: UnsafeRawBufferPointer(rebasing: bytes[start..<start + EpochContent.secretBytes]))
            }
            guard bytes.count >= Offset.epochs, let record = RecordHash(bytes: bytes[Offset.record..<Offset.key]) else {
                return nil
            }
            let count = Int(bytes[Offset.epochCount]) << 8 | Int(bytes[Offset.epochCount + 1])
            let end = Offset.epochs + count * Self.epochBytes
            guard end <= bytes.count, bytes.count - end <= ExchangeLimits.addressBytes,
                let address = String(validating: bytes[end...], as: UTF8.self)
            else { return nil }
            var epochs = EpochSecrets()
            for start in stride(from: Offset.epochs, to: end, by: Self.epochBytes) {
                guard let epoch = RecordHash(bytes: bytes[start..<start + RecordHash.byteCount]) else { return nil }
                epochs.add(secret(start + RecordHash.byteCount), of: epoch)
            }
            return (record, secret(Offset.key), secret(Offset.roster), epochs, address)
        }
        guard let parts else { return nil }
        self.init(
            repository: repository, record: parts.record, key: try SigningKey(secret: parts.key),
            rosterSecret: parts.roster, epochs: parts.epochs, address: parts.address)
    }
}

extension Invitation: CustomStringConvertible, CustomReflectable {
    public var description: String { "Invitation(repository \(repository))" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension InvitationContent: CustomStringConvertible, CustomReflectable {
    package var description: String { "InvitationContent(repository \(repository))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
