import StoreCrypto

/// The content of an epoch's record: its secret, sealed for each member, and the former secrets, sealed by its own.
struct EpochContent: Hashable, Sendable {
    /// The secret for one member.
    struct Box: Hashable, Sendable {
        let member: ReplicaID
        /// 32 bytes and the tag.
        let sealed: [UInt8]
    }

    static let secretBytes = 32
    private static let boxBytes = secretBytes + AuthenticatedEncryption.tagBytes
    /// The public key of a pair of this epoch alone, 32 bytes.
    let ephemeral: [UInt8]
    /// By ascending members.
    let boxes: [Box]
    /// Former epochs, ascending.
    let carried: [RecordHash]
    /// The secrets of ``carried`` in their order, and the tag. Empty if none is carried.
    let sealedSecrets: [UInt8]

    private static let nonce = [UInt8](repeating: 0, count: AuthenticatedEncryption.nonceBytes)

    // MARK: Making and opening

    /// Seals a secret for members.
    ///
    /// - Parameters:
    ///   - former: The secrets of all former epochs that the author has (F21).
    /// - Throws: ``CryptoError``. A member whose key is useless gets a box that nobody opens.
    init(
        secret: SecretBytes, for members: [Member], former: [RecordHash: SecretBytes], in repository: RepositoryID
    ) throws {
        let pair = try AgreementKey.random()
        ephemeral = pair.publicBytes
        boxes = try members.sorted { $0.id < $1.id }.map { member in
            let shared = try pair.sharedSecret(with: member.agreementBytes) ?? SecretBytes.random(count: 32)
            let key = try Self.boxKey(shared, pair.publicBytes, member.agreementBytes)
            let data = repository.bytes + member.id.bytes
            let sealed = try AuthenticatedEncryption.seal(secret, key: key, nonce: Self.nonce, additionalData: data)
            return Box(member: member.id, sealed: sealed)
        }
        let ordered = former.sorted { $0.key < $1.key }
        carried = ordered.map(\.key)
        guard !ordered.isEmpty else {
            sealedSecrets = []
            return
        }
        let plain = SecretBytes(count: ordered.count * Self.secretBytes) { output in
            for (index, entry) in ordered.enumerated() {
                let place = UnsafeMutableRawBufferPointer(rebasing: output[(index * Self.secretBytes)...])
                entry.value.withBytes { place.copyMemory(from: $0) }
            }
        }
        sealedSecrets = try AuthenticatedEncryption.seal(
            plain, key: Self.chainKey(secret, repository), nonce: Self.nonce,
            additionalData: carried.flatMap(\.bytes))
    }

    /// The secret, if it was sealed for the replica.
    func secret(for keys: ReplicaKeys, in repository: RepositoryID) throws -> SecretBytes? {
        guard let box = boxes.first(where: { $0.member == keys.id }),
            let shared = try keys.agreement.sharedSecret(with: ephemeral)
        else { return nil }
        let key = try Self.boxKey(shared, ephemeral, keys.agreement.publicBytes)
        let data = repository.bytes + keys.id.bytes
        return try AuthenticatedEncryption.open(box.sealed, key: key, nonce: Self.nonce, additionalData: data)
    }

    /// The former secrets; none if the secret is not that of this epoch.
    func formerSecrets(with secret: SecretBytes, in repository: RepositoryID) throws -> [RecordHash: SecretBytes] {
        guard !carried.isEmpty else { return [:] }
        let opened = try AuthenticatedEncryption.open(
            sealedSecrets, key: Self.chainKey(secret, repository), nonce: Self.nonce,
            additionalData: carried.flatMap(\.bytes))
        guard let opened else { return [:] }
        return opened.withBytes { plain -> [RecordHash: SecretBytes] in
            var found: [RecordHash: SecretBytes] = [:]
            for (index, epoch) in carried.enumerated() {
                let place = plain[(index * Self.secretBytes)..<((index + 1) * Self.secretBytes)]
                found[epoch] = SecretBytes(copying: UnsafeRawBufferPointer(rebasing: place))
            }
            return found
        }
    }

    private static func boxKey(
        _ shared: SecretBytes, _ ephemeral: [UInt8], _ recipient: [UInt8]
    ) throws(CryptoError) -> SecretBytes {
        try KeyDerivation.hkdf(
            key: shared, salt: ephemeral + recipient, label: "cipherstore epoch box v1", keyBytes: secretBytes)
    }

    private static func chainKey(_ secret: SecretBytes, _ repository: RepositoryID) throws(CryptoError) -> SecretBytes {
        try KeyDerivation.hkdf(
            key: secret, salt: repository.bytes, label: "cipherstore epoch chain v1", keyBytes: secretBytes)
    }

    // MARK: Bytes

    init(reading reader: inout ByteReader) throws(CommitError) {
        ephemeral = Array(try reader.take(AgreementKey.byteCount))
        var boxes: [Box] = []
        for _ in 0..<(try reader.count(limit: ExchangeLimits.records)) {
            boxes.append(
                Box(member: try reader.identifier(ReplicaID.self), sealed: Array(try reader.take(Self.boxBytes))))
        }
        var carried: [RecordHash] = []
        for _ in 0..<(try reader.count(limit: ExchangeLimits.records)) {
            carried.append(try reader.identifier(RecordHash.self))
        }
        guard zip(boxes, boxes.dropFirst()).allSatisfy({ $0.member < $1.member }),
            zip(carried, carried.dropFirst()).allSatisfy({ $0 < $1 })
        else { throw reader.error(.contextOrder) }
        self.boxes = boxes
        self.carried = carried
        let sealedBytes = carried.count * Self.secretBytes + AuthenticatedEncryption.tagBytes
        sealedSecrets = carried.isEmpty ? [] : Array(try reader.take(sealedBytes))
    }
}

extension [UInt8] {
    mutating func append(_ epoch: EpochContent) {
        self += epoch.ephemeral
        append(varint: epoch.boxes.count)
        for box in epoch.boxes { self += box.member.bytes + box.sealed }
        append(varint: epoch.carried.count)
        for hash in epoch.carried { self += hash.bytes }
        self += epoch.sealedSecrets
    }
}

/// The secrets of epochs that a replica has.
package struct EpochSecrets: Sendable {
    private(set) var secrets: [RecordHash: SecretBytes] = [:]

    init() {}

    /// Adds a secret that came in an invitation or from the own store.
    mutating func add(_ secret: SecretBytes, of epoch: RecordHash) {
        secrets[epoch] = secrets[epoch] ?? secret
    }

    /// Opens what the records have for the replica.
    ///
    /// - Returns: Whether a secret is new.
    @discardableResult
    mutating func learn(from list: MemberList, _ keys: ReplicaKeys) throws -> Bool {
        let before = secrets.count
        for epoch in list.epochs where secrets[epoch.hash] == nil {
            if let secret = try epoch.content.secret(for: keys, in: list.repository) { secrets[epoch.hash] = secret }
        }
        var hasMore = true
        while hasMore {
            hasMore = false
            for epoch in list.epochs where !epoch.content.carried.allSatisfy({ secrets[$0] != nil }) {
                guard let secret = secrets[epoch.hash] else { continue }
                for (former, found) in try epoch.content.formerSecrets(with: secret, in: list.repository)
                where secrets[former] == nil {
                    secrets[former] = found
                    hasMore = true
                }
            }
        }
        return secrets.count > before
    }
}
