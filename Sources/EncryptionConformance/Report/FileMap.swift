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

    static let empty = FileMap(
        pageBytes: 0, pageCount: 0, cells: [], counts: [:], frameCount: 0, damagedFrames: [], zeroPages: PageRanges())
}

/// Draws a map from the results of a scan.
struct MapDrawing {
    let survey: PageSurvey
    let pageBytes: Int
    let pageCount: Int
    var isPlain = false
    var damaged = PageRanges()
    var missing = PageRanges()
    /// Pages of zeros that are neither free nor in the WAL.
    var zero = PageRanges()
    var former = PageRanges()
    var free = PageSet(pageCount: 0)
    var log: Set<UInt32> = []
    var frameCount = 0
    var damagedFrames: [DamagedFrame] = []

    func map() -> FileMap {
        // Of a header that claims more pages than there can be, the last cells stand for all that is missing.
        let perCell = UInt32(max(survey.pagesPerCell, (pageCount + Limits.mapCells - 1) / Limits.mapCells, 1))
        let entropy = survey.pagesPerCell == Int(perCell) ? survey.cells : []
        var cells: [FileMap.Cell] = []
        var counts: [FileMap.Kind: Int] = [:]
        var first: UInt32 = 1
        let last = UInt32(clamping: pageCount)
        while first <= last, last > 0 {
            let end = perCell > last - first ? last : first + perCell - 1
            let found = kinds(first...end)
            for (kind, count) in found { counts[kind, default: 0] += count }
            let kind = FileMap.Kind.allCases.first { found[$0] ?? 0 > 0 } ?? .authentic
            let index = cells.count
            cells.append(
                FileMap.Cell(
                    pages: first...end, kind: kind, count: found[kind] ?? 0,
                    entropy: index < entropy.count ? entropy[index].mean : nil))
            if end == .max { break }
            first = end + 1
        }
        return FileMap(
            pageBytes: pageBytes, pageCount: pageCount, cells: cells, counts: counts,
            frameCount: frameCount, damagedFrames: damagedFrames, zeroPages: zero)
    }

    /// How many pages of a range are of each kind.
    private func kinds(_ range: ClosedRange<UInt32>) -> [FileMap.Kind: Int] {
        if isPlain { return [.plain: range.count] }
        var found: [FileMap.Kind: Int] = [:]
        found[.former] = former.count(in: range)
        found[.damaged] = damaged.count(in: range) - (found[.former] ?? 0)
        found[.missing] = missing.count(in: range)
        found[.zero] = zero.count(in: range)
        let listed = damaged.count(in: range) + (found[.missing] ?? 0) + (found[.zero] ?? 0)
        var rest = range.count - listed
        if range.contains(1), ![damaged, missing, zero].contains(where: { $0.contains(1) }) {
            found[.header] = 1
            rest -= 1
        }
        // Nothing of a range that is missing is free or in the WAL: it may be billions of pages.
        guard rest > 0 else { return found.filter { $0.value > 0 } }
        for page in range where page != 1 {
            guard free.contains(page) || log.contains(page) else { continue }
            if listed > 0, [damaged, missing, zero].contains(where: { $0.contains(page) }) { continue }
            found[free.contains(page) ? .free : .wal, default: 0] += 1
            rest -= 1
        }
        found[.authentic] = rest
        return found.filter { $0.value > 0 }
    }
}

extension PageRanges {
    /// How many pages of a range are among them.
    fileprivate func count(in range: ClosedRange<UInt32>) -> Int {
        ranges.reduce(0) { $1.overlaps(range) ? $0 + $1.clamped(to: range).count : $0 }
    }
}
