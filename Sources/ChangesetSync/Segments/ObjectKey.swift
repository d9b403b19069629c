import StoreCrypto

/// The kind of an object.
package enum ObjectKind: UInt8, Sendable {
    case segment = 0
    case snapshot = 1
    case snapshotPart = 2
    case memberRecord = 3
}

/// Seals and opens objects with one secret (Docs/Formats/Segment.md).
///
/// The key of each object is derived from the whole content, so equal content gives equal bytes and no key is used for
/// two contents. The secret is that of an epoch, or the secret of the roster, which all members have for all time.
package final class ObjectKey: Sendable {
    enum Offset {
        static let magic = 0
        static let version = 4
        static let kind = 5
        static let edition = 6
        static let reserved = 7
        static let key = 8
        static let repository = 24
        static let salt = 40
        static let sealed = 72
    }

    static let magic = Array("CSO2".utf8)
    static let version: UInt8 = 1
    static let saltBytes = 32
    /// The length of the content, before the content.
    static let lengthBytes = 4

    let repository: RepositoryID
    /// The beginning of the hash of the epoch's record; zeros for the roster.
    let id: CommitTag
    private let salts: MessageAuthenticator
    private let keys: MessageAuthenticator
    private let tags: MessageAuthenticator

    /// - Throws: ``CryptoError`` unless the secret has 32 bytes.
    package init(secret: SecretBytes, id: CommitTag, repository: RepositoryID) throws(CryptoError) {
        guard secret.count == EpochContent.secretBytes else {
            throw CryptoError("object key", reason: "the secret has \(secret.count) bytes instead of 32")
        }
        func derive(_ label: String) throws(CryptoError) -> MessageAuthenticator {
            let key = try KeyDerivation.hkdf(key: secret, salt: repository.bytes, label: label, keyBytes: 32)
            return try MessageAuthenticator(hash: .sha256, key: key)
        }
        self.repository = repository
        self.id = id
        salts = try derive("cipherstore object salt v1")
        keys = try derive("cipherstore object key v1")
        tags = try derive("cipherstore object tag v1")
    }

    /// The key of an epoch.
    convenience init(
        secret: SecretBytes, epoch: RecordHash, repository: RepositoryID
    ) throws(CryptoError) {
        try self.init(secret: secret, id: Self.id(of: epoch), repository: repository)
    }

    static func id(of epoch: RecordHash) -> CommitTag {
        guard let id = CommitTag(bytes: epoch.bytes.prefix(CommitTag.byteCount)) else {
            preconditionFailure("A hash has fewer bytes than its beginning.")
        }
        return id
    }

    /// A keyed hash for a name: 8 bytes in hexadecimal digits.
    func tag(_ purpose: String, _ bytes: [UInt8]) throws(CryptoError) -> String {
        let code = try Self.code(tags, Array(purpose.utf8) + [0], bytes)
        return FixedBytes<SIMD2<UInt64>>(code.prefix(16)).map { String($0.text.prefix(16)) } ?? ""
    }

    // MARK: Sealing

    /// Seals content.
    ///
    /// - Parameter edition: Zero, or another number to give the same content another name, where a remote has damaged bytes
    ///   under the first one and does not let them be deleted.
    func seal(_ content: [UInt8], _ kind: ObjectKind, edition: UInt8 = 0) throws(CryptoError) -> [UInt8] {
        var header = Self.magic + [Self.version, kind.rawValue, edition, 0] + id.bytes + repository.bytes
        header += try Self.code(salts, [kind.rawValue, edition], content)
        let key = try objectKey(header)
        let plainCount = Self.paddedCount(Self.lengthBytes + content.count)
        let total = header.count + plainCount + AuthenticatedEncryption.tagBytes
        var outcome: Result<Void, CryptoError> = .success(())
        let bytes = [UInt8](unsafeUninitializedCapacity: total) { output, written in
            output.initialize(repeating: 0)
            let whole = UnsafeMutableRawBufferPointer(output)
            whole.copyBytes(from: header)
            whole.storeBytes(of: UInt32(content.count).bigEndian, toByteOffset: Offset.sealed, as: UInt32.self)
            UnsafeMutableRawBufferPointer(rebasing: whole[(Offset.sealed + Self.lengthBytes)...])
                .copyBytes(from: content)
            let plain = UnsafeRawBufferPointer(
                rebasing: UnsafeRawBufferPointer(whole)[Offset.sealed..<Offset.sealed + plainCount])
            let sealed = UnsafeMutableRawBufferPointer(rebasing: whole[Offset.sealed..<total])
            outcome = header.withUnsafeBytes { header in
                Result { () throws(CryptoError) in
                    try AuthenticatedEncryption.seal(
                        plain, key: key, nonce: Self.nonce, additionalData: header, into: sealed)
                }
            }
            written = total
        }
        try outcome.get()
        return bytes
    }

    /// Opens an object; its bytes may be damaged or hostile.
    ///
    /// - Throws: ``ObjectError``; ``CryptoError``.
    package func open(_ bytes: [UInt8], _ kind: ObjectKind) throws -> [UInt8] {
        let header = try ObjectHeader(bytes)
        guard header.repository == repository else { throw ObjectError.otherRepository }
        guard header.key == id else { throw ObjectError.unknownEpoch(header.key) }
        guard header.kind == kind.rawValue else { throw ObjectError.otherContent }
        var plain = [UInt8](repeating: 0, count: bytes.count - Offset.sealed - AuthenticatedEncryption.tagBytes)
        let key = try objectKey(Array(bytes[..<Offset.sealed]))
        let isAuthentic = try bytes.withUnsafeBytes { whole in
            try plain.withUnsafeMutableBytes { plain in
                try AuthenticatedEncryption.open(
                    UnsafeRawBufferPointer(rebasing: whole[Offset.sealed...]), key: key, nonce: Self.nonce,
                    additionalData: UnsafeRawBufferPointer(rebasing: whole[..<Offset.sealed]), into: plain)
            }
        }
        guard isAuthentic, plain.count >= Self.lengthBytes else { throw ObjectError.notAuthentic }
        let count = plain[..<Self.lengthBytes].reduce(0) { $0 << 8 | Int($1) }
        let end = Self.lengthBytes + count
        guard end <= plain.count, plain.count == Self.paddedCount(end), plain[end...].allSatisfy({ $0 == 0 }) else {
            throw ObjectError.malformed(CommitError(.malformedNumber, at: 0))
        }
        plain.removeLast(plain.count - end)
        plain.removeFirst(Self.lengthBytes)
        guard try Self.code(salts, [kind.rawValue, header.edition], plain) == header.salt else {
            throw ObjectError.malformed(CommitError(.notCanonical, at: 0))
        }
        return plain
    }

    /// Zeros: each key seals one content.
    private static let nonce = [UInt8](repeating: 0, count: AuthenticatedEncryption.nonceBytes)

    /// HKDF-Expand with the header as `info`; the last byte is the number of the one block (RFC 5869).
    private func objectKey(_ header: [UInt8]) throws(CryptoError) -> SecretBytes {
        var outcome: Result<Void, CryptoError> = .success(())
        let key = SecretBytes(count: AuthenticatedEncryption.keyBytes) { output in
            outcome = header.withUnsafeBytes { header in
                withUnsafeBytes(of: UInt8(1)) { block in
                    Result { () throws(CryptoError) in try keys.authenticate(header, block, into: output) }
                }
            }
        }
        try outcome.get()
        return key
    }

    private static func code(
        _ authenticator: MessageAuthenticator, _ first: [UInt8], _ second: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: HashAlgorithm.sha256.digestBytes)
        let outcome = code.withUnsafeMutableBytes { code in
            first.withUnsafeBytes { first in
                second.withUnsafeBytes { second in
                    Result { () throws(CryptoError) in try authenticator.authenticate(first, second, into: code) }
                }
            }
        }
        try outcome.get()
        return code
    }

    /// The length with padding: at most 12 percent more, so that a length tells little of the content.
    ///
    /// - SeeAlso: "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs" (PADME), section 4.
    static func paddedCount(_ count: Int) -> Int {
        guard count > 1 else { return count }
        let exponent = Int.bitWidth - 1 - count.leadingZeroBitCount
        let kept = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << max(exponent - kept, 0)) - 1
        return (count + mask) & ~mask
    }
}

/// The readable part of a sealed object.
struct ObjectHeader: Sendable {
    let kind: UInt8
    let edition: UInt8
    let key: CommitTag
    let repository: RepositoryID
    let salt: [UInt8]

    /// - Throws: ``ObjectError`` `malformed`, `laterVersion`.
    init(_ bytes: [UInt8]) throws {
        typealias Offset = ObjectKey.Offset
        guard bytes.count <= ExchangeLimits.objectBytes else { throw ObjectError.malformed(CommitError(.bodyTooLong)) }
        guard bytes.count >= Offset.sealed + ObjectKey.lengthBytes + AuthenticatedEncryption.tagBytes else {
            throw ObjectError.malformed(CommitError(.truncated, at: bytes.count))
        }
        guard bytes.prefix(ObjectKey.magic.count).elementsEqual(ObjectKey.magic) else {
            throw ObjectError.malformed(CommitError(.unknownKind(bytes[0]), at: 0))
        }
        guard bytes[Offset.version] == ObjectKey.version else { throw ObjectError.laterVersion(bytes[Offset.version]) }
        guard bytes[Offset.reserved] == 0 else {
            throw ObjectError.malformed(CommitError(.unknownFlags(bytes[Offset.reserved]), at: Offset.reserved))
        }
        kind = bytes[Offset.kind]
        edition = bytes[Offset.edition]
        salt = Array(bytes[Offset.salt..<Offset.sealed])
        guard let key = CommitTag(bytes: bytes[Offset.key..<Offset.repository]),
            let repository = RepositoryID(bytes: bytes[Offset.repository..<Offset.salt])
        else { preconditionFailure("The offsets of a header do not fit its fields.") }
        self.key = key
        self.repository = repository
    }
}
