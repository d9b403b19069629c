import StoreTools

/// A map of a database file: what each page is, and how random it looks. Of a large file each cell stands for a range of
/// pages.
public struct FileMap: Sendable {
    /// The kinds of pages. In a cell of several pages the first of these that is among them counts.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// It is not authentic under any key that is known.
        case damaged
        /// It is authentic under a former key.
        case former
        /// It belongs to the database and is neither in the file nor in the WAL.
        case missing
        /// It holds nothing but zeros, and is none of the free pages: it was wiped.
        case zero
        /// It is not encrypted.
        case plain
        /// Page 1, authentic.
        case header
        /// Authentic, and its newest image is in the WAL.
        case wal
        /// Authentic and in use.
        case authentic
        /// No table and no index uses it.
        case free

        /// Its name in a sentence.
        var words: String {
            switch self {
            case .damaged: "damaged"
            case .former: "under a former key"
            case .missing: "missing"
            case .zero: "zeros"
            case .plain: "not encrypted"
            case .header: "page 1, with the header"
            case .wal: "authentic, newest image in the WAL"
            case .authentic: "authentic"
            case .free: "free"
            }
        }
    }

    /// Neighbouring pages of the map.
    public struct Cell: Sendable {
        /// The pages, from 1.
        public let pages: ClosedRange<UInt32>
        public let kind: Kind
        /// How many of the pages are of this kind.
        public let count: Int
        /// Bits for each byte, scaled so that random bytes have 8; nil where nothing could be read.
        public let entropy: Double?
    }

    /// Bytes of a page.
    public let pageBytes: Int
    /// Pages of the database.
    public let pageCount: Int
    public let cells: [Cell]
    /// How many pages there are of each kind.
    public let counts: [Kind: Int]
    /// Committed frames of the WAL.
    public let frameCount: Int
    /// Committed frames that are not authentic.
    public let damagedFrames: [DamagedFrame]
    /// Pages of the kind ``Kind/zero``.
    public let zeroPages: PageRanges
}

extension PageRanges {
    /// How many pages of a range are among them.
    func count(in range: ClosedRange<UInt32>) -> Int {
        ranges.reduce(0) { $1.overlaps(range) ? $0 + $1.clamped(to: range).count : $0 }
    }
}
