import StoreCrypto

/// The digest of a table's rows: the sum of a number for each row, so that it does not depend on their order, and a
/// change costs as much as the rows that change.
struct RowDigest: Hashable, Sendable {
    private(set) var sum: UInt128 = 0

    /// The digest of no rows.
    init() {}

    /// - Returns: nil unless there are 16 bytes.
    init?(bytes: some Collection<UInt8>) {
        guard bytes.count == TableDigest.byteCount else { return nil }
        sum = bytes.reduce(0) { $0 << 8 | UInt128($1) }
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: sum)
        return bytes
    }

    mutating func add(_ row: DeltaRecord, _ key: RepositoryKey) throws(CryptoError) {
        sum &+= try key.summand(ofRow: row.bytes)
    }

    /// Adds other rows by their digest.
    mutating func add(_ other: RowDigest) { sum &+= other.sum }

    mutating func remove(_ row: DeltaRecord, _ key: RepositoryKey) throws(CryptoError) {
        sum &-= try key.summand(ofRow: row.bytes)
    }
}

/// The digests of tables, as a store keeps them: for each table, in the order of the names, its name, a zero byte and the
/// digest.
extension [String: RowDigest] {
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for (name, digest) in sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            bytes.append(contentsOf: name.utf8)
            bytes.append(0)
            bytes.append(bigEndian: digest.sum)
        }
        return bytes
    }

    /// - Returns: nil where these are no digests.
    init?(encoded bytes: [UInt8]) {
        self = [:]
        var reader = ByteReader(bytes[...])
        while !reader.isAtEnd {
            guard let name = reader.take(upTo: 0), let digest = reader.take(TableDigest.byteCount).map(Array.init),
                let name = String(validating: name, as: UTF8.self)
            else { return nil }
            self[name] = RowDigest(bytes: digest)
        }
    }
}
