import CipherDatabase

/// The parts of a snapshot that is being joined, in their order.
protocol SnapshotParts: Sendable {
    /// - Parameter number: From 0.
    /// - Returns: nil after the last one.
    func part(_ number: Int, _ db: Database) throws -> [UInt8]?
    /// Called in the transaction that ends the join.
    func remove(_ db: Database) throws
}

/// A snapshot in memory.
struct Snapshot: SnapshotParts, Sendable {
    let parts: [[UInt8]]

    func part(_ number: Int, _ db: Database) throws -> [UInt8]? { parts.indices.contains(number) ? parts[number] : nil }
    func remove(_ db: Database) throws {}
}

/// Divides the parts of a snapshot into items: the length of each as a varint, and its bytes. An item may begin in one part
/// and end in another.
package struct SnapshotReader: Sendable {
    private var content: ArraySlice<UInt8> = []
    private var number = 0
    private var decoder = SnapshotDecoder()

    package init() {}

    var isComplete: Bool { decoder.isComplete && content.isEmpty }

    /// The next item with the number of its bytes; nil at the end.
    ///
    /// - Parameter part: Gives a part by its number; nil after the last one.
    /// - Throws: ``CommitError``; what `part` throws.
    mutating func next(_ part: (Int) throws -> [UInt8]?) throws -> (item: SnapshotItem, byteCount: Int)? {
        while true {
            if let found = try taken() { return found }
            guard let more = try part(number) else {
                guard content.isEmpty, decoder.isComplete else { throw CommitError(.truncated) }
                return nil
            }
            number += 1
            content = content.isEmpty ? more[...] : content + more
        }
    }

    /// Adds a part, and gives the items that are whole.
    package mutating func add(_ part: [UInt8], _ body: (SnapshotItem) throws -> Void) throws {
        content = content.isEmpty ? part[...] : content + part
        while let (item, _) = try taken() { try body(item) }
    }

    private mutating func taken() throws(CommitError) -> (item: SnapshotItem, byteCount: Int)? {
        var reader = ByteReader(content)
        let start = reader
        // The longest length has 10 bytes: fewer may be a part of it.
        guard reader.remaining >= 10 || hasWholeLength(reader) else { return nil }
        let count = try reader.varint()
        guard count <= UInt64(SnapshotItem.limitBytes) else { throw start.error(.malformedNumber) }
        guard count <= UInt64(reader.remaining) else { return nil }
        let bytes = try reader.take(Int(count))
        content = reader.rest
        return (try decoder.decode(bytes), bytes.count)
    }

    private func hasWholeLength(_ reader: ByteReader) -> Bool { reader.rest.contains { $0 < 0x80 } }
}

/// Writes items, and gives them as parts of one length.
struct SnapshotBuffer {
    private var content: [UInt8] = []
    /// The bytes that were given.
    private var start = 0
    /// The length of each part but the last.
    let partBytes: Int

    init(partBytes: Int) { self.partBytes = partBytes }

    private var byteCount: Int { content.count - start }
    var isFull: Bool { byteCount >= partBytes }

    mutating func append(_ item: SnapshotItem) {
        let bytes = item.bytes
        content.append(varint: bytes.count)
        content += bytes
    }

    /// The next part; nil if there is none.
    mutating func take() -> [UInt8]? {
        if byteCount == 0 { return nil }
        let end = start + min(partBytes, byteCount)
        let part = Array(content[start..<end])
        start = end
        // A long item is moved once, not for each part.
        if !isFull {
            content.removeFirst(start)
            start = 0
        }
        return part
    }
}
