import StoreCrypto

/// What stands for a commit and all of its ancestors: the commit's place in the graph, and the list of the parts that have
/// the rows of its state. Docs/Formats/Changeset.md tabulates it.
///
/// Everything in it is a function of the commit, so that two replicas make the same bytes.
struct CheckpointManifest: Hashable, Sendable {
    static let magic = Array("CSCM".utf8)
    static let version: UInt8 = 1

    /// The commit whose state it is.
    let commit: CommitID
    /// What a store keeps in the place of the commit: of the kind checkpoint, without parents and with the digests of all
    /// tables that have rows.
    let anchor: Commit
    /// For each author the number of the last commit that it stands for.
    let authors: [AuthorID: UInt64]
    let rowCount: UInt64
    /// The parts, in their order.
    let parts: [ObjectID]

    func encoded() throws(CommitError) -> [UInt8] {
        let anchor = try anchor.encoded()
        var bytes = Self.magic
        bytes.append(Self.version)
        bytes += commit.bytes
        bytes.append(bigEndian: UInt32(clamping: anchor.count))
        bytes += anchor
        bytes.append(bigEndian: UInt32(clamping: authors.count))
        for (author, sequence) in authors.sorted(by: { $0.key < $1.key }) {
            bytes += author.bytes
            bytes.append(bigEndian: sequence)
        }
        bytes.append(bigEndian: rowCount)
        bytes.append(bigEndian: UInt32(clamping: parts.count))
        for part in parts { bytes += part.bytes }
        return bytes
    }
}

extension CheckpointManifest {
    /// Reads the bytes of ``encoded()``; every other encoding is refused.
    ///
    /// - Throws: ``CheckpointError``
    init(encoded bytes: ArraySlice<UInt8>) throws(CheckpointError) {
        var reader = ByteReader(bytes)
        try CheckpointError.begin(&reader, Self.magic, Self.version)
        guard let commit = reader.take(CommitID.byteCount).flatMap({ CommitID(bytes: $0) }),
            let length = reader.integer(as: UInt32.self), let anchor = reader.take(Int(length))
        else { throw CheckpointError(.truncated) }
        self.commit = commit
        do { self.anchor = try Commit(encoded: anchor) } catch { throw CheckpointError(.commit(error)) }
        guard self.anchor.kind == .checkpoint, self.anchor.parents.isEmpty else { throw CheckpointError(.impossible) }
        guard let authorCount = reader.integer(as: UInt32.self), Int(authorCount) <= reader.remaining / 24 else {
            throw CheckpointError(.truncated)
        }
        var (authors, last): ([AuthorID: UInt64], AuthorID?) = ([:], nil)
        for _ in 0..<authorCount {
            guard let author = reader.take(AuthorID.byteCount).flatMap({ AuthorID(bytes: $0) }),
                let sequence = reader.integer(as: UInt64.self)
            else { throw CheckpointError(.truncated) }
            guard last.map({ $0 < author }) ?? true, author != .none, sequence > 0 else {
                throw CheckpointError(.impossible)
            }
            (authors[author], last) = (sequence, author)
        }
        self.authors = authors
        guard let rowCount = reader.integer(as: UInt64.self), let partCount = reader.integer(as: UInt32.self),
            Int(partCount) * ObjectID.byteCount == reader.remaining
        else { throw CheckpointError(.truncated) }
        self.rowCount = rowCount
        parts = (0..<partCount).compactMap { _ in reader.take(ObjectID.byteCount).flatMap { ObjectID(bytes: $0) } }
        guard (rowCount == 0) == parts.isEmpty else { throw CheckpointError(.impossible) }
    }

    /// The digest of the rows of a table.
    func digest(of table: String) -> [UInt8] {
        anchor.digests.first { $0.table == table }?.bytes ?? RowDigest().bytes
    }

    /// Whether the rows have what a commit did. A merge that is not later has no work of its own.
    func replaces(_ kind: Commit.Kind, generation: UInt64, sequence: UInt64, author: AuthorID) -> Bool {
        guard generation <= anchor.generation else { return false }
        return kind == .merge || kind == .ordinary && sequence <= authors[author] ?? 0
    }
}

/// Some rows of a checkpoint.
struct CheckpointPart: Hashable, Sendable {
    static let magic = Array("CSCP".utf8)
    static let version: UInt8 = 1
    private static let headerBytes = 4 + 1 + CommitID.byteCount + 4

    /// The commit whose state it is a part of: equal rows of two checkpoints have different bytes at a remote.
    let commit: CommitID
    /// From 0.
    let number: UInt32
    /// The rows, as insertions.
    let rows: Delta

    func encoded() -> [UInt8] {
        var bytes = Self.magic
        bytes.append(Self.version)
        bytes += commit.bytes
        bytes.append(bigEndian: number)
        return bytes + rows.encoded()
    }

    init(commit: CommitID, number: UInt32, rows: Delta) {
        (self.commit, self.number, self.rows) = (commit, number, rows)
    }

    /// - Throws: ``CheckpointError``
    init(encoded bytes: ArraySlice<UInt8>) throws(CheckpointError) {
        var reader = ByteReader(bytes)
        try CheckpointError.begin(&reader, Self.magic, Self.version)
        guard let commit = reader.take(CommitID.byteCount).flatMap({ CommitID(bytes: $0) }),
            let number = reader.integer(as: UInt32.self), let rest = reader.take(reader.remaining)
        else { throw CheckpointError(.truncated) }
        do {
            rows = try Delta(encoded: rest)
        } catch {
            throw CheckpointError(.rows(error))
        }
        guard rows.tables.allSatisfy({ $0.changes.allSatisfy { $0.operation == .insert } }) else {
            throw CheckpointError(.impossible)
        }
        (self.commit, self.number) = (commit, number)
    }
}

/// Why bytes are no part of a checkpoint, or no acknowledgement. It never contains a value of a row.
struct CheckpointError: Error, Hashable, Sendable {
    enum Code: Hashable, Sendable {
        case truncated
        case impossible
        case otherKind
        case unsupportedVersion(UInt8)
        case commit(CommitError)
        case rows(DeltaError)
    }

    let code: Code

    init(_ code: Code) { self.code = code }

    /// Reads what every one of these objects begins with.
    static func begin(
        _ reader: inout ByteReader, _ magic: [UInt8], _ expected: UInt8
    ) throws(CheckpointError) {
        guard reader.take(magic.count)?.elementsEqual(magic) == true else { throw CheckpointError(.otherKind) }
        guard let version = reader.byte() else { throw CheckpointError(.truncated) }
        guard version == expected else { throw CheckpointError(.unsupportedVersion(version)) }
    }
}

extension CheckpointError: CustomStringConvertible {
    var description: String {
        switch code {
        case .truncated: "checkpoint: its bytes end too early. Fetch them again."
        case .impossible: "checkpoint: a field has a value that no checkpoint has. Fetch it again."
        case .otherKind: "checkpoint: it is an object of another kind. Fetch it again."
        case .unsupportedVersion(let version): "checkpoint: it has version \(version). Update this program."
        case .commit(let error): "\(error)"
        case .rows(let error): "\(error)"
        }
    }
}
