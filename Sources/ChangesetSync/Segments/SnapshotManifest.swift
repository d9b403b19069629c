import StoreCrypto

/// The vector that a snapshot covers, and its parts (Docs/Formats/Segment.md). Signed by its maker.
package struct SnapshotManifest: Hashable, Sendable {
    let repository: RepositoryID
    let maker: ReplicaID
    let time: HybridTime
    /// All commits that the rows of the parts are made of.
    let vector: VersionVector
    /// The digests of the sealed parts, in order.
    let parts: [String]
    /// Whether rows of it have cells whose values its maker did not know.
    let lacksValues: Bool
    let bytes: [UInt8]

    /// The signature: the same for the same parts alone.
    var identity: [UInt8] { Array(bytes.suffix(VerifyingKey.signatureBytes)) }

    static let version: UInt8 = 1
    /// The version of a manifest with ``lacksValues``.
    static let lackingVersion: UInt8 = 2
    private static let label = Array("cipherstore snapshot v1".utf8)
    private static let digestBytes = 16

    init(
        _ repository: RepositoryID, time: HybridTime, vector: VersionVector, parts: [String],
        lacksValues: Bool = false, by keys: ReplicaKeys
    ) throws {
        self.repository = repository
        maker = keys.id
        self.time = time
        self.vector = vector
        self.parts = parts
        self.lacksValues = lacksValues
        var body: [UInt8] = [lacksValues ? Self.lackingVersion : Self.version] + repository.bytes + keys.id.bytes
        body.append(bigEndian: time.rawValue)
        body.append(vector)
        body.append(varint: parts.count)
        for part in parts { body += FixedBytes<SIMD2<UInt64>>(hexadecimal: part)?.bytes ?? [] }
        bytes = body + (try keys.signing.signature(of: Self.label + body))
    }

    /// Reads the content of an object.
    ///
    /// - Parameter verifyingKey: Gives the key of a maker that may write, or throws (F18).
    /// - Throws: ``ObjectError``; ``CryptoError``.
    package init(
        decoding bytes: [UInt8], in repository: RepositoryID, verifyingKey: (ReplicaID) throws -> VerifyingKey
    ) throws {
        do {
            var reader = ByteReader(bytes)
            let version = try reader.byte()
            guard version == Self.version || version == Self.lackingVersion else {
                throw ObjectError.laterVersion(version)
            }
            lacksValues = version == Self.lackingVersion
            guard try reader.identifier(RepositoryID.self) == repository else { throw ObjectError.otherRepository }
            self.repository = repository
            maker = try reader.identifier(ReplicaID.self)
            time = try reader.time()
            vector = try reader.vector()
            var parts: [String] = []
            for _ in 0..<(try reader.count(limit: ExchangeLimits.snapshotParts)) {
                guard let digest = FixedBytes<SIMD2<UInt64>>(try reader.take(Self.digestBytes)) else { continue }
                parts.append(digest.text)
            }
            self.parts = parts
            let signature = Array(try reader.take(VerifyingKey.signatureBytes))
            guard reader.isAtEnd else { throw reader.error(.trailingBytes) }
            let body = Array(bytes.dropLast(VerifyingKey.signatureBytes))
            guard try verifyingKey(maker).isSignature(signature, of: Self.label + body) else {
                throw ObjectError.wrongSignature
            }
            self.bytes = bytes
        } catch let error as CommitError {
            throw ObjectError.malformed(error)
        }
    }
}
