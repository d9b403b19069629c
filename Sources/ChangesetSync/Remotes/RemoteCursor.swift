/// What a replica has read of a remote: for each author the last entry up to which it has read all.
///
/// A vector and not a number: a number that is given in the order of arrival loses what a slower writer commits later
/// under a lower one.
public struct RemoteCursor: Hashable, Sendable {
    private static let version: UInt8 = 1
    private static let entryBytes = AuthorPseudonym.byteCount + 8

    /// The last sequence of each author, never 0.
    public private(set) var sequences: [AuthorPseudonym: UInt64]

    /// The beginning.
    public init() { sequences = [:] }

    /// The last entry of an author that was read; 0 before the first.
    public func sequence(of author: AuthorPseudonym) -> UInt64 { sequences[author] ?? 0 }

    /// Whether the entry was read.
    public func contains(_ position: LogPosition) -> Bool { position.sequence <= sequence(of: position.author) }

    /// Moves the cursor after an entry.
    ///
    /// - Returns: False, and nothing changes, where an entry before it was not read: the cursor would skip it.
    @discardableResult
    public mutating func advance(after position: LogPosition) -> Bool {
        if contains(position) { return true }
        guard position.sequence == sequence(of: position.author) + 1 else { return false }
        sequences[position.author] = position.sequence
        return true
    }

    /// Moves the cursor before the last entry of an author, which is then listed again.
    mutating func stepBack(_ author: AuthorPseudonym) {
        let last = sequence(of: author)
        sequences[author] = last > 1 ? last - 1 : nil
    }

    /// Removes what was read of an author, whose log is then read from its beginning.
    public mutating func forget(_ author: AuthorPseudonym) { sequences[author] = nil }

    /// A version byte; for each author, in the order of their bytes, its 16 bytes and the sequence as 64 bits,
    /// big-endian. Equal cursors have equal bytes.
    public var encoded: [UInt8] {
        var bytes = [Self.version]
        bytes.reserveCapacity(1 + sequences.count * Self.entryBytes)
        for (author, sequence) in sequences.sorted(by: { $0.key < $1.key }) {
            bytes += author.bytes
            bytes.append(bigEndian: sequence)
        }
        return bytes
    }

    /// - Returns: nil unless these are the bytes of a cursor.
    public init?(decoding bytes: [UInt8]) {
        guard bytes.first == Self.version, (bytes.count - 1) % Self.entryBytes == 0 else { return nil }
        var sequences: [AuthorPseudonym: UInt64] = [:]
        var last: AuthorPseudonym?
        for start in stride(from: 1, to: bytes.count, by: Self.entryBytes) {
            let (author, sequence) = bytes.withUnsafeBytes { raw in
                (
                    AuthorPseudonym(FixedBytes(loading: raw, at: start)),
                    UInt64(
                        bigEndian: raw.loadUnaligned(fromByteOffset: start + AuthorPseudonym.byteCount, as: UInt64.self)
                    )
                )
            }
            guard sequence > 0, last.map({ $0 < author }) ?? true else { return nil }
            sequences[author] = sequence
            last = author
        }
        self.sequences = sequences
    }
}

extension RemoteCursor {
    /// Whether all was read that the other cursor has read.
    func contains(_ other: RemoteCursor) -> Bool { other.sequences.allSatisfy { $1 <= sequence(of: $0) } }

    /// Moves over all that the other cursor has read as well: entries that nobody needs to read.
    mutating func formUnion(_ other: RemoteCursor) {
        sequences.merge(other.sequences) { max($0, $1) }
    }
}
