/// The writes of a commit, encoded, in their order. They are decoded one by one, so a commit of a million rows needs the
/// memory of its bytes.
package struct Writes: Sendable, Sequence {
    package let author: ReplicaID
    package let bytes: ArraySlice<UInt8>
    package let count: Int

    /// - Throws: ``CommitError`` if no commit can have the writes.
    init(_ writes: some Sequence<Write>, author: ReplicaID) throws(CommitError) {
        var encoder = WritesEncoder(author: author, into: [UInt8]())
        for write in writes { try encoder.append(write) }
        self.init(encoder)
    }

    init(_ encoder: WritesEncoder<[UInt8]>) {
        author = encoder.author
        bytes = encoder.sink[...]
        count = encoder.count
    }

    /// Reads bytes of others. All of them are decoded and encoded again once, so that there is one form of each value.
    ///
    /// - Throws: ``CommitError`` with the offset in the bytes.
    init(decoding bytes: ArraySlice<UInt8>, author: ReplicaID) throws(CommitError) {
        var decoder = WritesDecoder(bytes, author: author)
        var encoder = WritesEncoder(author: author, into: ByteComparison(bytes))
        while true {
            let offset = decoder.offset
            guard let write = try decoder.next() else { break }
            do throws(CommitError) { try encoder.append(write) } catch { throw CommitError(error.code, at: offset) }
            guard encoder.sink.isEqual else { throw CommitError(.notCanonical, at: offset) }
        }
        guard encoder.sink.isComplete else { throw CommitError(.notCanonical, at: decoder.offset) }
        self.author = author
        self.bytes = bytes
        count = encoder.count
    }

    var isEmpty: Bool { count == 0 }
    package var underestimatedCount: Int { count }

    package struct Iterator: IteratorProtocol, Sendable {
        fileprivate var decoder: WritesDecoder

        package mutating func next() -> Write? {
            do throws(CommitError) {
                return try decoder.next()
            } catch {
                preconditionFailure("Writes that were verified cannot be read: \(error)")
            }
        }
    }

    package func makeIterator() -> Iterator { Iterator(decoder: WritesDecoder(bytes, author: author)) }
}

extension Writes: Hashable {
    package static func == (one: Writes, other: Writes) -> Bool {
        one.author == other.author && ByteOrder.areEqual(one.bytes, other.bytes)
    }
    package func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}
