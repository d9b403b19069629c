import StoreTools

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
        let perCell = UInt32(
            max(survey.pagesPerCell, (pageCount + ConformanceLimits.mapCells - 1) / ConformanceLimits.mapCells, 1))
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
