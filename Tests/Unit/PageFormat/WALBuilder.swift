import PageFormat

/// Builds write-ahead logs by SQLite's format, right ones and wrong ones.
struct WALBuilder {
    var bytes: [UInt8] = []
    private var checksum = WALChecksum()
    private let salts: (UInt32, UInt32)
    private let bigEndian: Bool
    private let pageBytes: Int

    init(
        pageBytes: Int = 512, salts: (UInt32, UInt32) = (0x1234_5678, 0x9abc_def0), bigEndian: Bool = false,
        magic: UInt32 = WALHeader.magic, version: UInt32 = WALHeader.formatVersion
    ) {
        self.pageBytes = pageBytes
        self.salts = salts
        self.bigEndian = bigEndian
        append([magic | (bigEndian ? 1 : 0), version, UInt32(pageBytes), 7, salts.0, salts.1])
        add(bytes[0..<24])
        append([checksum.first, checksum.second])
    }

    /// Adds a frame whose page is filled with `fill`; `commit` is the database's page count, 0 within a transaction.
    mutating func addFrame(page: UInt32, commit: UInt32, fill: UInt8) {
        addFrame(page: page, commit: commit, content: [UInt8](repeating: fill, count: pageBytes))
    }

    /// Adds a frame that holds `content`.
    mutating func addFrame(page: UInt32, commit: UInt32, content: [UInt8]) {
        let start = bytes.count
        append([page, commit])
        add(bytes[start..<start + 8])
        add(content[...])
        append([salts.0, salts.1, checksum.first, checksum.second])
        bytes += content
    }

    private mutating func append(_ words: [UInt32]) {
        for word in words { bytes += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) } }
    }

    private mutating func add(_ slice: ArraySlice<UInt8>) {
        slice.withUnsafeBytes { checksum.add($0, bigEndian: bigEndian) }
    }
}

extension WALScan {
    /// Walks a log that lies in memory.
    static func scan(
        _ log: [UInt8], maximumFrame: UInt32? = nil, checking: Checking = .checksums
    ) throws -> WALScan? {
        try scan(fileBytes: log.count, maximumFrame: maximumFrame, checking: checking, read: log.read)
    }
}
