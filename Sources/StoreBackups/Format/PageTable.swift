import CipherStore
import PageFormat
import StoreCrypto

/// The first part of a pack: the number, the tag and the hash of each of its pages. Its SHA-256 is the name of the pack.
///
/// Docs/Formats/BackupRepository.md tabulates the offsets.
struct PageTable: Sendable {
    enum Offset {
        static let magic = 0
        static let version = 6
        static let pageBytes = 8
        static let count = 12
        static let entries = 16
    }

    /// The fields of an entry, from its start.
    enum EntryOffset {
        static let pageNumber = 0
        static let tag = 4
        static let sha256 = 20
        static let end = 52
    }

    static let magic = "CSPACK"
    static let version: UInt16 = 1

    let pageBytes: Int
    let count: Int
    let bytes: [UInt8]

    /// The length of a table.
    static func byteCount(pages: Int) -> Int { Offset.entries + pages * EntryOffset.end }

    /// The pages of a full pack.
    static func capacity(pageBytes: Int) -> Int { max(1, BackupLimits.packBytes / pageBytes) }

    /// The bytes of a pack in which its table ends, if its pages have this size.
    static func limitBytes(pageBytes: Int) -> Int { byteCount(pages: capacity(pageBytes: pageBytes)) }
    /// The most bytes of a pack: that of the smallest pages has the longest table.
    static let longestPackBytes = limitBytes(pageBytes: 512) + BackupLimits.packBytes

    /// Makes the table of a new pack.
    ///
    /// - Parameter entries: The bytes of all entries.
    init(pageBytes: Int, entries: [UInt8]) {
        count = entries.count / EntryOffset.end
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Offset.entries + entries.count)
        bytes.begin(Self.magic, version: Self.version)
        bytes.append(number: UInt32(pageBytes))
        bytes.append(number: UInt32(count))
        self.bytes = bytes + entries
        self.pageBytes = pageBytes
    }

    /// Reads the table at the beginning of a pack.
    init(beginning pack: [UInt8]) throws(FormatFault) {
        var reader = FieldReader(pack.prefix(Offset.entries))
        try reader.begin(Self.magic, version: Self.version)
        pageBytes = Int(try reader.number(UInt32.self))
        count = Int(try reader.number(UInt32.self))
        guard PageLayout.isPageSize(pageBytes), (1...Self.capacity(pageBytes: pageBytes)).contains(count) else {
            throw FormatFault("has impossible sizes")
        }
        guard pack.count >= Self.byteCount(pages: count) else { throw FormatFault("ends too early") }
        bytes = Array(pack.prefix(Self.byteCount(pages: count)))
    }

    /// The length of the pack.
    var packBytes: Int { bytes.count + count * pageBytes }

    /// Where the page of a slot begins in the pack.
    func offset(ofSlot slot: Int) -> Int { bytes.count + slot * pageBytes }

    private func start(_ slot: Int) -> Int { Offset.entries + slot * EntryOffset.end }

    func pageNumber(_ slot: Int) -> UInt32 {
        bytes.withUnsafeBytes {
            UInt32(bigEndian: $0.loadUnaligned(fromByteOffset: start(slot) + EntryOffset.pageNumber, as: UInt32.self))
        }
    }

    func tag(_ slot: Int) -> PageTag {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: start(slot) + EntryOffset.tag, as: PageTag.self) }
    }

    func hash(_ slot: Int) -> ArraySlice<UInt8> {
        bytes[start(slot) + EntryOffset.sha256..<start(slot) + EntryOffset.end]
    }

    /// Whether a page has the hash of a slot.
    func holds(_ page: UnsafeRawBufferPointer, _ slot: Int) throws -> Bool {
        try page.sha256.elementsEqual(hash(slot))
    }
}

/// The first 16 bytes of a page's authentication code. Under one key, pages of one number and one tag are equal.
typealias PageTag = SIMD2<UInt64>

extension PageLayout {
    /// The tag of an encrypted page.
    func tag(of page: UnsafeRawBufferPointer) -> PageTag {
        page.loadUnaligned(fromByteOffset: codeOffset, as: PageTag.self)
    }
}

extension UnsafeRawBufferPointer {
    /// The SHA-256 of these bytes.
    var sha256: [UInt8] {
        get throws {
            var digest = try ContentDigest()
            digest.update(self)
            return try digest.finish()
        }
    }
}
