import StoreCrypto

/// A commit: what it changed, where it stands in the graph, and who made it when.
///
/// A merge is the same whoever makes it: it has no author, no number of its author, no time of its own and no
/// description.
package struct Commit: Hashable, Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable {
        /// Made by a program; it has one parent, or none when it is the first.
        case ordinary = 0
        /// The merge of two commits.
        case merge = 1
        /// Stands for the commit in whose place it is, and for all of that one's ancestors. No remote has it.
        case checkpoint = 2
    }

    package var kind: Kind
    /// Those of a merge are in their order.
    package var parents: [CommitID]
    /// One more than the greatest generation of the parents; 1 without parents.
    package var generation: UInt64
    package var author: AuthorID
    /// Counts the commits of the author, beginning with 1. A gap shows that one is withheld.
    var authorSequence: UInt64
    package var time: HybridTime
    package var schema: SchemaID
    /// What the program says of it.
    package var meta: String
    /// The digests, after the commit, of the tables that it changed, in the order of their names.
    package var digests: [TableDigest]
    /// The encoded delta from each parent; of a commit without parents, that from empty tables.
    package var deltas: [ArraySlice<UInt8>]

    package init(
        kind: Kind, parents: [CommitID], generation: UInt64, author: AuthorID, authorSequence: UInt64, time: HybridTime,
        schema: SchemaID, meta: String = "", digests: [TableDigest], deltas: [ArraySlice<UInt8>]
    ) {
        self.kind = kind
        self.parents = parents
        self.generation = generation
        self.author = author
        self.authorSequence = authorSequence
        self.time = time
        self.schema = schema
        self.meta = meta
        self.digests = digests
        self.deltas = deltas
    }

    /// The delta from one of the parents.
    ///
    /// - Throws: ``DeltaError`` when its bytes are no delta.
    package func delta(fromParent index: Int = 0) throws(DeltaError) -> Delta {
        guard deltas.indices.contains(index) else { throw DeltaError(.truncated, at: 0) }
        return try Delta(encoded: deltas[index])
    }

    /// Makes the identifier from the canonical bytes.
    package func id(key: RepositoryKey) throws -> CommitID {
        try encoded().withUnsafeBytes { try key.commitID(of: $0) }
    }

    private static let greatestNumber = UInt64(Int64.max)

    /// Throws unless everything is as it must be for the kind of commit.
    private func check() throws(CommitError) {
        try require(parents.count <= (kind == .merge ? 2 : 1) && (kind != .merge || parents.count == 2), .parents)
        if kind == .merge { try require(parents[0] < parents[1], .parents) }
        let isFirst = kind == .ordinary && parents.isEmpty
        try require(
            isFirst
                ? generation == 1 : generation > UInt64(parents.isEmpty ? 0 : 1) && generation <= Self.greatestNumber,
            .generation)
        let isMerge = kind == .checkpoint ? author == .none : kind == .merge
        try require((author == .none) == isMerge, .author)
        try require((authorSequence == 0) == isMerge && authorSequence <= Self.greatestNumber, .authorSequence)
        try require(time <= .latest, .time)
        try require(meta.utf8.count <= Limits.commitMetaBytes && (kind != .merge || meta.isEmpty), .meta)
        for digest in digests { try require(!digest.table.isEmpty && !digest.table.utf8.contains(0), .digests) }
        for (digest, next) in zip(digests, digests.dropFirst()) {
            try require(digest.table.utf8.lexicographicallyPrecedes(next.table.utf8), .digests)
        }
        try require(deltas.count == (kind == .merge ? 2 : 1), .deltas)
        for delta in deltas { try require(!delta.isEmpty && delta.count <= Limits.deltaBytes, .deltas) }
    }

    private func require(_ condition: Bool, _ field: CommitError.Field) throws(CommitError) {
        if !condition { throw CommitError(.impossible(field)) }
    }
}

/// The canonical bytes. Docs/Formats/Changeset.md tabulates them.
extension Commit {
    package static let version: UInt8 = 1

    /// Offsets of the fields before the parents.
    package enum Offset {
        package static let version = 0
        package static let kind = 1
        static let parentCount = 2
        package static let parents = 3
    }

    /// The one encoding of the commit, of which the identifier is made.
    ///
    /// - Throws: ``CommitError`` when a commit of this kind cannot be so, or is too large.
    package func encoded() throws(CommitError) -> [UInt8] {
        try check()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256 + meta.utf8.count + deltas.reduce(0) { $0 + $1.count })
        bytes.append(Self.version)
        bytes.append(kind.rawValue)
        bytes.append(UInt8(parents.count))
        for parent in parents { bytes.append(contentsOf: parent.bytes) }
        bytes.append(bigEndian: generation)
        bytes.append(contentsOf: author.bytes)
        bytes.append(bigEndian: authorSequence)
        bytes.append(bigEndian: time.rawValue)
        bytes.append(contentsOf: schema.bytes)
        Self.append(meta.utf8, to: &bytes)
        bytes.append(bigEndian: UInt32(clamping: digests.count))
        for digest in digests {
            Self.append(digest.table.utf8, to: &bytes)
            bytes.append(contentsOf: digest.bytes)
        }
        Self.append(deltas[0], to: &bytes)
        Self.append(deltas.count > 1 ? deltas[1] : [], to: &bytes)
        return bytes
    }

    private static func append(_ content: some Collection<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(bigEndian: UInt32(clamping: content.count))
        bytes.append(contentsOf: content)
    }

    /// Reads canonical bytes; every other encoding is refused. The deltas are not read.
    ///
    /// - Throws: ``CommitError``
    package init(encoded bytes: ArraySlice<UInt8>) throws(CommitError) {
        var fields = CommitReader(bytes)
        let version = try fields.byte(.version)
        guard version == Self.version else { throw CommitError(.unsupportedVersion(version), at: Offset.version) }
        guard let kind = Kind(rawValue: try fields.byte(.kind)) else {
            throw CommitError(.impossible(.kind), at: Offset.kind)
        }
        let parentCount = try fields.byte(.parents)
        guard parentCount <= 2 else { throw CommitError(.impossible(.parents), at: Offset.parentCount) }
        var parents: [CommitID] = []
        for _ in 0..<parentCount {
            parents.append(try fields.read(CommitID.byteCount, .parents, CommitID.init(bytes:)))
        }
        self.init(
            kind: kind, parents: parents,
            generation: try fields.number(.generation),
            author: try fields.read(AuthorID.byteCount, .author, AuthorID.init(bytes:)),
            authorSequence: try fields.number(.authorSequence),
            time: HybridTime(rawValue: try fields.number(.time)),
            schema: try fields.read(SchemaID.byteCount, .schema, SchemaID.init(bytes:)),
            meta: try fields.text(.meta),
            digests: try fields.digests(),
            deltas: try fields.deltas())
        guard fields.isAtEnd else { throw CommitError(.trailingBytes, at: fields.offset) }
        try check()
    }
}

/// Reads the fields of canonical bytes in their order.
private struct CommitReader {
    private var reader: ByteReader

    init(_ bytes: ArraySlice<UInt8>) { reader = ByteReader(bytes) }

    var isAtEnd: Bool { reader.isAtEnd }
    var offset: Int { reader.offset }

    mutating func byte(_ field: CommitError.Field) throws(CommitError) -> UInt8 {
        guard let byte = reader.byte() else { throw CommitError(.truncated(field), at: reader.offset) }
        return byte
    }

    mutating func number(_ field: CommitError.Field) throws(CommitError) -> UInt64 {
        let start = reader.offset
        guard let number = reader.integer(as: UInt64.self) else { throw CommitError(.truncated(field), at: start) }
        return number
    }

    mutating func read<Value>(
        _ count: Int, _ field: CommitError.Field, _ make: (ArraySlice<UInt8>) -> Value?
    ) throws(CommitError) -> Value {
        let start = reader.offset
        guard let bytes = reader.take(count), let value = make(bytes) else {
            throw CommitError(.truncated(field), at: start)
        }
        return value
    }

    mutating func content(_ field: CommitError.Field) throws(CommitError) -> ArraySlice<UInt8> {
        let start = reader.offset
        guard let length = reader.integer(as: UInt32.self), let bytes = reader.take(Int(length)) else {
            throw CommitError(.truncated(field), at: start)
        }
        return bytes
    }

    /// One or two deltas; an empty one stands for none, and only in the second place.
    mutating func deltas() throws(CommitError) -> [ArraySlice<UInt8>] {
        let start = reader.offset
        let first = try content(.deltas)
        guard !first.isEmpty else { throw CommitError(.impossible(.deltas), at: start) }
        let second = try content(.deltas)
        return second.isEmpty ? [first] : [first, second]
    }

    mutating func text(_ field: CommitError.Field) throws(CommitError) -> String {
        let start = reader.offset
        guard let text = String(validating: try content(field), as: UTF8.self) else {
            throw CommitError(.impossible(field), at: start)
        }
        return text
    }

    mutating func digests() throws(CommitError) -> [TableDigest] {
        let start = reader.offset
        // Each digest takes more than its own bytes: a greater number cannot be true.
        guard let count = reader.integer(as: UInt32.self), Int(count) <= reader.remaining / TableDigest.byteCount else {
            throw CommitError(.truncated(.digests), at: start)
        }
        var digests: [TableDigest] = []
        for _ in 0..<count {
            let table = try text(.digests)
            digests.append(try read(TableDigest.byteCount, .digests) { TableDigest(table: table, bytes: $0) })
        }
        return digests
    }
}

/// Why bytes are no commit, or a commit cannot be made. It never contains a value of a row.
package struct CommitError: Error, Hashable, Sendable {
    package enum Field: String, Hashable, Sendable {
        case version, kind, parents, generation, author, time, schema, meta, digests, deltas
        case authorSequence = "number of the author's commit"
    }

    package enum Code: Hashable, Sendable {
        case truncated(Field)
        case trailingBytes
        case unsupportedVersion(UInt8)
        /// No commit of this kind has such a field.
        case impossible(Field)
        /// No later time exists.
        case timeExhausted
    }

    package let code: Code
    /// The offset in the bytes that were read; nil where it is known of the whole commit only.
    package let offset: Int?

    init(_ code: Code, at offset: Int? = nil) {
        self.code = code
        self.offset = offset
    }
}

extension CommitError: CustomStringConvertible {
    package var description: String {
        let place = offset.map { " at offset \($0)" } ?? ""
        return switch code {
        case .truncated(let field): "commit: the bytes end in its \(field.rawValue)\(place). Fetch them again."
        case .trailingBytes: "commit: bytes follow its end\(place). Fetch them again."
        case .unsupportedVersion(let version): "commit: it has version \(version). Update this program."
        case .impossible(let field):
            "commit: no commit of its kind has such a value of: \(field.rawValue)\(place). Fetch it again."
        case .timeExhausted: "commit: its parent has the latest time there is. Leave the parent out by a reset."
        }
    }
}
