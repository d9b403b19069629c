import CipherStore
import PageFormat
import StorePlatform

/// The pages that no table and no index uses, as the database lists them: trunk pages, each of which names leaf pages.
///
/// A leaf page has no content, and SQLite does not write one that it has no use for: it can be a hole of the file, or hold
/// anything. A trunk page is read.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#the_freelist>
package struct FreeList: Sendable {
    /// The trunk pages and the leaf pages, as far as the list can be read.
    package private(set) var pages: PageSet
    /// The leaf pages.
    package private(set) var leaves: [UInt32] = []
    private var trunks: [UInt32] = []
    /// Whether the list was read to its end.
    private(set) var isComplete = false
    /// The fault of the list, each as a sentence without its full stop.
    package private(set) var problems: [String] = []

    /// The offsets in page 1 of the number of the first trunk page, and of the number of all free pages.
    private static let (firstTrunkOffset, countOffset) = (32, 36)

    /// - Throws: The errors of reading.
    package init(_ source: AuthenticPages) throws {
        pages = PageSet(pageCount: source.pageCount)
        try read(source)
    }

    private mutating func read(_ source: AuthenticPages) throws {
        guard let first = try source.page(1)?.bytes else { return }
        var trunk = first.bigEndian(at: Self.firstTrunkOffset)
        while trunk != 0 {
            guard trunk <= source.pageCount else { return add("names page \(trunk), which the database does not have") }
            // A trunk that was met before is a circle.
            guard pages.insert(trunk) else { return add("names page \(trunk) twice") }
            trunks.append(trunk)
            guard let bytes = try source.page(trunk)?.bytes else { return add("cannot be read from page \(trunk) on") }
            let count = Int(bytes.bigEndian(at: 4))
            guard count <= source.usableBytes / 4 - 2 else {
                return add("has more than fits in page \(trunk): \(Self.pages(count))")
            }
            for index in 0..<count {
                let leaf = bytes.bigEndian(at: 8 + 4 * index)
                if leaf == 0 || leaf > source.pageCount {
                    add("names page \(leaf), which the database does not have")
                } else if pages.insert(leaf) {
                    leaves.append(leaf)
                } else {
                    add("names page \(leaf) twice")
                }
            }
            trunk = bytes.bigEndian(at: 0)
        }
        isComplete = true
        let count = Int(first.bigEndian(at: Self.countOffset))
        // A page that is named twice or does not exist explains another number.
        if problems.isEmpty, count != pages.count {
            add("has \(Self.pages(pages.count)), and the header counts \(count)")
        }
    }

    /// An empty list.
    package init() { pages = PageSet(pageCount: 0) }

    private static func pages(_ count: Int) -> String { CountText.text(count, "page") }

    private mutating func add(_ problem: String) {
        guard problems.count < ToolLimits.integrityLines else { return }
        problems.append("the list of free pages \(problem)")
    }

    // MARK: Pages in use

    /// The pages of the list that a table or an index uses. The next write may overwrite them.
    ///
    /// - Parameters:
    ///   - roots: The first pages of all tables and indexes.
    ///   - check: Called again and again; what it throws ends the search.
    /// - Throws: The errors of reading.
    func pagesInUse(
        _ source: AuthenticPages, roots: [UInt32], check: () throws -> Void
    ) throws -> PageRanges {
        let maps = PointerMaps(try source.page(1)?.bytes, source)
        var found = (leaves + trunks).filter { maps.contains($0) || $0 == source.layout.lockBytePage }
        var seen = PageSet(pageCount: source.pageCount)
        // Returns whether a page is to be read: a page of the list holds nothing that could be followed.
        func visit(_ number: UInt32) -> Bool {
            guard number > 0, number <= source.pageCount, seen.insert(number) else { return false }
            if pages.contains(number) { found.append(number) }
            return !pages.contains(number)
        }
        var waiting = roots
        while let number = waiting.popLast() {
            if seen.count.isMultiple(of: 256) { try check() }
            guard visit(number), let bytes = try source.page(number)?.bytes,
                let page = TreePage(bytes, number: number, usableBytes: source.usableBytes)
            else { continue }
            if let last = page.lastChild { waiting.append(last) }
            for cell in (0..<page.cellCount).lazy.compactMap({ page.cell($0) }) {
                if let child = cell.child { waiting.append(child) }
                var next = cell.overflow ?? 0
                var rest = cell.recordBytes - cell.local.count
                while rest > 0, visit(next) {
                    rest -= source.usableBytes - 4
                    next = rest > 0 ? try source.page(next)?.bytes.bigEndian(at: 0) ?? 0 : 0
                }
            }
        }
        return PageRanges(found)
    }
}

/// The pages of auto-vacuum databases that say where other pages belong.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages>
struct PointerMaps {
    private let interval: UInt32
    private let lockBytePage: UInt32

    /// - Parameter firstPage: Nil when it is lost; then no page is taken for one.
    init(_ firstPage: [UInt8]?, _ pages: AuthenticPages) {
        let isAutomatic = firstPage?.bigEndian(at: DatabaseHeader.Offset.largestRootPage) ?? 0 != 0
        interval = isAutomatic ? UInt32(pages.usableBytes / 5) + 1 : 0
        lockBytePage = pages.layout.lockBytePage
    }

    func contains(_ page: UInt32) -> Bool {
        guard interval > 0, page >= 2 else { return false }
        let map = (page - 2) / interval * interval + 2
        return page == (map == lockBytePage ? map + 1 : map)
    }
}
