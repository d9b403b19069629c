import PageFormat

/// Which page belongs to which table: by the interior pages that are authentic, and for pages below a lost one by their
/// content, where only one table fits.
struct PageAssignment {
    /// Pages below a lost interior page that belong together.
    struct Group {
        var pages: [UInt32]
        /// The first and the last row id; nil in the tree of an index.
        var rowIDs: ClosedRange<Int64>?
        /// How many levels of pages are below its root.
        var height: Int
        let isIndexTree: Bool
    }

    private let pages: AuthenticPages
    /// The kind of each page from 1; nil for one that is not authentic, or not of a tree.
    private let kinds: PageKinds
    private let free: PageSet
    /// The pages that have a place in a tree.
    private(set) var assigned: PageSet

    init(pages: AuthenticPages, kinds: PageKinds, free: PageSet) {
        self.pages = pages
        self.kinds = kinds
        self.free = free
        assigned = PageSet(pageCount: pages.pageCount)
    }

    private struct Visit {
        let page: UInt32
        let after: Int64?
        let upTo: Int64?
        /// Whether a neighbour below the same page is a leaf; then this page is one.
        let isLeaf: Bool?
    }

    // MARK: From the root

    /// Walks a tree from its root as far as its pages are authentic.
    ///
    /// - Throws: The errors of reading.
    mutating func walk(_ tree: inout SalvagedTree) throws {
        var waiting = [Visit(page: tree.root, after: nil, upTo: nil, isLeaf: nil)]
        while let visit = waiting.popLast() {
            guard let page = try treePage(visit.page), page.kind.isTable != tree.isIndexTree,
                !free.contains(visit.page), try isWithin(visit, page), assigned.insert(visit.page)
            else {
                tree.lost.append(
                    LostPage(page: visit.page, after: visit.after, upTo: visit.upTo, isLeaf: visit.isLeaf))
                continue
            }
            if page.kind != .tableInterior { tree.pages.append(visit.page) }
            if !page.kind.isLeaf { waiting += children(of: page, visit).reversed() }
        }
        tree.pages.sort()
    }

    private func treePage(_ number: UInt32) throws -> TreePage? {
        guard kinds[number] != nil, let found = try pages.page(number) else { return nil }
        return TreePage(found.bytes, number: number, usableBytes: pages.usableBytes)
    }

    /// Whether the row ids of a page are those that the page above it names. An older image of a page may belong to
    /// another table.
    private func isWithin(_ visit: Visit, _ page: TreePage) throws -> Bool {
        guard page.kind == .tableLeaf, page.cellCount > 0 else { return true }
        guard let first = page.cell(0)?.rowID, let last = page.cell(page.cellCount - 1)?.rowID, first <= last else {
            return false
        }
        return visit.after.map { first > $0 } ?? true && visit.upTo.map { last <= $0 } ?? true
    }

    private func children(of page: TreePage, _ above: Visit) -> [Visit] {
        let cells = (0..<page.cellCount).compactMap { page.cell($0) }
        let known = (cells.map(\.child) + [page.lastChild]).compactMap { $0.flatMap { kinds[$0] } }
        let isLeaf = known.first?.isLeaf
        var after = above.after
        var visits: [Visit] = []
        for cell in cells {
            guard let child = cell.child else { continue }
            visits.append(Visit(page: child, after: after, upTo: cell.rowID, isLeaf: isLeaf))
            after = cell.rowID ?? after
        }
        if let last = page.lastChild {
            visits.append(Visit(page: last, after: after, upTo: above.upTo, isLeaf: isLeaf))
        }
        return visits
    }

    // MARK: Pages without a parent

    /// The pages of trees that have no place yet and are not free, in groups that belong together.
    ///
    /// - Throws: The errors of reading.
    mutating func takeGroups() throws -> [Group] {
        var below = PageSet(pageCount: pages.pageCount)
        let orphans = (1...max(1, pages.pageCount)).filter {
            kinds[$0] != nil && !assigned.contains($0) && !free.contains($0)
        }
        for number in orphans where kinds[number]?.isLeaf == false {
            guard let page = try treePage(number) else { continue }
            for child in childPages(page) where kinds[child]?.isTable == page.kind.isTable { below.insert(child) }
        }
        var groups: [Group] = []
        for number in orphans where !below.contains(number) {
            if let group = try takeGroup(number) { groups.append(group) }
        }
        // Circles, which only stale images can form.
        for number in orphans where !assigned.contains(number) {
            if let group = try takeGroup(number) { groups.append(group) }
        }
        return groups
    }

    /// Takes the leaves of tables that have no place yet, are not free, and satisfy a condition.
    ///
    /// - Throws: The errors of `condition`.
    mutating func takeLeaves(where condition: (UInt32) throws -> Bool) rethrows -> [UInt32] {
        try (1...max(1, pages.pageCount)).filter { number in
            guard kinds[number] == .tableLeaf, !assigned.contains(number), !free.contains(number),
                try condition(number)
            else { return false }
            return assigned.insert(number)
        }
    }

    private func childPages(_ page: TreePage) -> [UInt32] {
        ((0..<page.cellCount).map { page.cell($0)?.child } + [page.lastChild]).compactMap(\.self)
    }

    private mutating func takeGroup(_ root: UInt32) throws -> Group? {
        guard let kind = kinds[root] else { return nil }
        var group = Group(pages: [], rowIDs: nil, height: 0, isIndexTree: !kind.isTable)
        var waiting = [(root, 0)]
        while let (number, depth) = waiting.popLast() {
            guard let page = try treePage(number), page.kind.isTable == kind.isTable, !free.contains(number),
                assigned.insert(number)
            else { continue }
            group.height = max(group.height, depth)
            if page.kind != .tableInterior { group.pages.append(number) }
            if page.kind == .tableLeaf { group.add(page) }
            if !page.kind.isLeaf { waiting += childPages(page).map { ($0, depth + 1) } }
        }
        group.pages.sort()
        return group.pages.isEmpty ? nil : group
    }
}

extension PageAssignment.Group {
    fileprivate mutating func add(_ page: TreePage) {
        guard page.cellCount > 0, let first = page.cell(0)?.rowID, let last = page.cell(page.cellCount - 1)?.rowID,
            first <= last
        else { return }
        rowIDs = min(rowIDs?.lowerBound ?? first, first)...max(rowIDs?.upperBound ?? last, last)
    }

    /// Whether it can be below a lost page: what was a leaf has nothing below it, and the page above names row ids.
    func canBeBelow(_ lost: LostPage) -> Bool {
        if lost.isLeaf == true { return false }
        guard let rowIDs else { return true }
        return lost.after.map { rowIDs.lowerBound > $0 } ?? true && lost.upTo.map { rowIDs.upperBound <= $0 } ?? true
    }
}

/// The kind of each page, one byte each: pages of trees, others, and those that are not authentic.
struct PageKinds {
    private static let damaged: UInt8 = 0xff
    private var kinds: [UInt8]

    init(pageCount: UInt32) { kinds = [UInt8](repeating: 0, count: Int(pageCount) + 1) }

    /// The kind of a page of a tree; nil for all others.
    subscript(_ page: UInt32) -> TreePage.Kind? {
        Int(page) < kinds.count ? TreePage.Kind(rawValue: kinds[Int(page)]) : nil
    }

    mutating func set(_ page: UInt32, _ kind: TreePage.Kind?) { kinds[Int(page)] = kind?.rawValue ?? 0 }
    mutating func setDamaged(_ page: UInt32) { kinds[Int(page)] = Self.damaged }
}
