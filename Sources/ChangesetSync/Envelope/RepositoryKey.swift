import StoreCrypto

/// The secret of a repository: who has it reads and writes its commits; who has not sees noise.
///
/// 32 random bytes in locked memory, and five keys that are derived from them. They are kept as keyed contexts of
/// libcrypto, which wipes them. Nothing of it is printed.
package final class RepositoryKey: Sendable {
    /// Bytes of the secret.
    package static let secretBytes = 32

    /// What the keys are derived for. Each label stands for one use of the secret, and never for another.
    enum Label {
        static let identity = "cipherstore sync commit id v1"
        static let object = "cipherstore sync object id v1"
        static let author = "cipherstore sync author v1"
        static let encryption = "cipherstore sync encryption v1"
        static let rows = "cipherstore sync row digest v1"
        /// Begins what the key of one object is derived from.
        static let envelope = "cipherstore sync envelope v1"
    }

    package let repository: RepositoryID
    /// The number of the secret: a repository that gets another one, after a member was removed, counts on.
    package let epoch: UInt32
    /// For a program that wraps it for another device. It must not be written anywhere in another way.
    package let secret: SecretBytes

    private let identity: MessageAuthenticator
    private let object: MessageAuthenticator
    private let author: MessageAuthenticator
    private let encryption: MessageAuthenticator
    private let rows: MessageAuthenticator

    /// - Throws: ``CryptoError`` unless the secret has 32 bytes.
    package init(repository: RepositoryID, epoch: UInt32, secret: SecretBytes) throws(CryptoError) {
        guard secret.count == Self.secretBytes else {
            throw CryptoError(
                "repository key", reason: "the key has \(secret.count) bytes instead of \(Self.secretBytes)")
        }
        func derive(_ label: String) throws(CryptoError) -> MessageAuthenticator {
            let key = try KeyDerivation.hkdf(key: secret, salt: repository.bytes, label: label, keyBytes: 32)
            return try MessageAuthenticator(hash: .sha256, key: key)
        }
        self.repository = repository
        self.epoch = epoch
        self.secret = secret
        identity = try derive(Label.identity)
        object = try derive(Label.object)
        author = try derive(Label.author)
        encryption = try derive(Label.encryption)
        rows = try derive(Label.rows)
    }

    /// A new repository: a random name and a random secret.
    package static func random() throws(CryptoError) -> RepositoryKey {
        let name = try FixedBytes<SIMD2<UInt64>> { (output) throws(CryptoError) in try SystemRandom.fill(output) }
        return try RepositoryKey(
            repository: RepositoryID(name), epoch: 1, secret: SecretBytes.random(count: secretBytes))
    }

    /// The identifier of a commit: HMAC-SHA256 of its canonical bytes.
    func commitID(of canonical: UnsafeRawBufferPointer) throws(CryptoError) -> ObjectID {
        ObjectID(
            try FixedBytes { (output) throws(CryptoError) in try identity.authenticate(canonical, into: output) })
    }

    /// What a row adds to the digest of its table: the first 16 bytes of an HMAC-SHA256 of its cells, as a number.
    func summand(ofRow cells: ArraySlice<UInt8>) throws(CryptoError) -> UInt128 {
        let outcome = cells.withUnsafeBytes { cells in
            Result { () throws(CryptoError) in
                try FixedBytes<SIMD4<UInt64>> { (output) throws(CryptoError) in
                    try rows.authenticate(cells, into: output)
                }
            }
        }
        return try outcome.get().leadingNumber
    }

    /// The identifier of one part of a commit: HMAC-SHA256 of the commit's identifier, the number of the part as 64 bits,
    /// and its bytes. Equal parts of different commits have different identifiers, so a remote cannot see that they are
    /// equal.
    func chunkID(of commit: ObjectID, number: UInt64, _ chunk: UnsafeRawBufferPointer) throws -> ObjectID {
        var place = commit.bytes
        place.append(bigEndian: number)
        return try place.withUnsafeBytes { place in
            ObjectID(try FixedBytes { output in try object.authenticate(place, chunk, into: output) })
        }
    }

    /// How remotes see an author: the first 16 bytes of an HMAC-SHA256 of the author's identifier.
    func pseudonym(ofAuthor author: UnsafeRawBufferPointer) throws(CryptoError) -> AuthorPseudonym {
        let code = try FixedBytes<SIMD4<UInt64>> { (output) throws(CryptoError) in
            try self.author.authenticate(author, into: output)
        }
        return code.bytes.withUnsafeBytes { AuthorPseudonym(FixedBytes(loading: $0, at: 0)) }
    }

    /// The key of one envelope, by HKDF-Expand (RFC 5869) with the whole header as a part of `info`.
    ///
    /// So a key never encrypts two contents under the same nonce: a header with anything else in it has another key, and
    /// its identifier stands for one content.
    func envelopeKey(header: UnsafeRawBufferPointer) throws(CryptoError) -> SecretBytes {
        var label = Self.Label.envelope
        var outcome: Result<Void, CryptoError> = .success(())
        let key = SecretBytes(count: AuthenticatedEncryption.keyBytes) { output in
            outcome = label.withUTF8 { label in
                // The number of the one block of output.
                withUnsafeBytes(of: UInt8(1)) { block in
                    Result { () throws(CryptoError) in
                        try encryption.authenticate(UnsafeRawBufferPointer(label), header, block, into: output)
                    }
                }
            }
        }
        try outcome.get()
        return key
    }
}

extension RepositoryKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "RepositoryKey(\(Self.secretBytes) bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
