import StoreCrypto

/// Collects pages for one pack. One thread uses it.
struct PackBuilder {
    let pageBytes: Int
    private let capacity: Int
    private var entries: [UInt8] = []
    private var pages: [UInt8] = []
    private(set) var count = 0

    init(pageBytes: Int) {
        self.pageBytes = pageBytes
        capacity = PageTable.capacity(pageBytes: pageBytes)
    }

    var isFull: Bool { count == capacity }

    /// Adds a page.
    ///
    /// - Returns: Its slot.
    mutating func add(_ page: UnsafeRawBufferPointer, number: UInt32, tag: PageTag, hash: [UInt8]) -> UInt32 {
        entries.append(number: number)
        withUnsafeBytes(of: tag) { entries.append(contentsOf: $0) }
        entries += hash
        pages.append(contentsOf: page)
        count += 1
        return UInt32(count - 1)
    }

    /// Returns the pack and its name, and begins the next one.
    mutating func finish() throws -> (hash: ObjectHash, bytes: [UInt8]) {
        let table = PageTable(pageBytes: pageBytes, entries: entries)
        let hash = try ObjectHash(of: table.bytes)
        let bytes = table.bytes + pages
        entries.removeAll(keepingCapacity: true)
        pages.removeAll(keepingCapacity: true)
        count = 0
        return (hash, bytes)
    }
}
