import CipherStore
import Foundation
import PageFormat

/// The damaged database, as far as its pages are authentic: its header, its schema, and the rows of a page.
struct SalvageSource {
    let pages: AuthenticPages
    let kinds: PageKinds
    let free: PageSet
    /// Whether the list of free pages could be read to its end.
    let knowsFreePages: Bool
    /// Pages whose newest image is damaged, in the place of which an older one is used.
    let olderPages: PageRanges
    /// Pages that are not authentic, and those after the end of the file.
    let lostPages: PageRanges
    /// Page 1; nil when it is lost.
    let firstPage: [UInt8]?
    /// The encoding of texts: that of the header, or where page 1 is lost, what the texts show.
    private(set) var encoding = TextEncoding.utf8

    /// Authenticates every page.
    ///
    /// - Throws: The errors of reading; `CancellationError`.
    init(_ pages: AuthenticPages, _ run: ToolRun) throws {
        var kinds = PageKinds(pageCount: pages.pageCount)
        var older: [UInt32] = []
        var lost: [UInt32] = []
        firstPage = try pages.page(1)?.bytes
        let pointerMaps = PointerMaps(firstPage, pages)
        for number in 1...max(1, pages.pageCount) where number != pages.layout.lockBytePage {
            if number % 256 == 0 {
                try run.check()
                run.report(ToolProgress(.authenticatingPages, done: Int(number), total: Int(pages.pageCount)))
            }
            guard let found = try pages.page(number) else {
                if try pages.isUnusedTail(number) { continue }
                kinds.setDamaged(number)
                lost.append(number)
                continue
            }
            if found.origin.isOlder { older.append(number) }
            let tree = TreePage(found.bytes, number: number, usableBytes: pages.usableBytes)
            kinds.set(number, pointerMaps.contains(number) ? nil : tree?.kind)
        }
        self.pages = pages
        self.kinds = kinds
        olderPages = PageRanges(older)
        let free = try FreeList(pages)
        // SQLite does not write a free page that it has no use for: it can be a hole of the file.
        let leaves = Set(free.leaves)
        var ranges = PageRanges(try lost.filter { try !leaves.contains($0) || !pages.isZero($0) })
        if pages.claimedPageCount > pages.pageCount, pages.pageCount > 0 {
            ranges.append(pages.pageCount + 1...pages.claimedPageCount, without: [])
        }
        lostPages = ranges
        self.free = free.pages
        knowsFreePages = free.isComplete
        if let firstPage {
            encoding = TextEncoding(rawValue: firstPage.bigEndian(at: DatabaseHeader.Offset.textEncoding)) ?? .utf8
        } else {
            encoding = try encodingOfTexts()
        }
    }

    // MARK: Header

    private func number(at offset: Int) -> UInt32 { firstPage?.bigEndian(at: offset) ?? 0 }

    var userVersion: Int32 { Int32(bitPattern: number(at: DatabaseHeader.Offset.userVersion)) }
    var applicationID: Int32 { Int32(bitPattern: number(at: DatabaseHeader.Offset.applicationID)) }

    /// The settings that the new database must have before its first page exists.
    var layout: DatabaseLayout {
        let isAutomatic = number(at: DatabaseHeader.Offset.largestRootPage) != 0
        let isIncremental = number(at: Self.incrementalVacuumOffset) != 0
        return DatabaseLayout(
            pageBytes: pages.layout.pageBytes, encoding: encoding.name,
            autoVacuum: isAutomatic ? (isIncremental ? 2 : 1) : 0)
    }

    private static let incrementalVacuumOffset = 64

    /// A value as SQLite binds it.
    func argument(_ value: TableReader.Value) -> SalvagedValue {
        switch value {
        case .null: SalvagedValue(.null)
        case .integer(let number): SalvagedValue(number.databaseValue)
        case .real(let bytes):
            SalvagedValue(Double(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }).databaseValue)
        case .blob(let bytes): SalvagedValue(Data(bytes).databaseValue)
        case .text(let bytes):
            // A text that is not valid in the encoding would not come back as the same bytes.
            if encoding.isValid(bytes) {
                SalvagedValue(encoding.text(bytes).databaseValue)
            } else {
                SalvagedValue(textOf: bytes)
            }
        }
    }

    /// The encoding that the texts of the first rows show.
    private func encodingOfTexts() throws -> TextEncoding {
        var evidence = TextEvidence()
        for page in 1...max(1, pages.pageCount) where kinds[page] != nil && !evidence.isEnough {
            try forEachRow(of: page) { row in
                guard case .row(_, let values) = row else { return }
                for case .text(let bytes) in values { evidence.add(bytes) }
            }
        }
        return evidence.encoding
    }

    // MARK: Rows

    /// A row, or what is left of it.
    enum FoundRow {
        case row(rowID: Int64?, values: [TableReader.Value])
        /// Its pages may be of different moments: then such a row never existed.
        case doubtful(rowID: Int64?, values: [TableReader.Value])
        /// A part of the row is on a page that is lost.
        case lost(rowID: Int64?, page: UInt32)
    }

    /// The rows of a page, in their order.
    ///
    /// - Throws: The errors of reading, or of `body`.
    func forEachRow(of number: UInt32, _ body: (FoundRow) throws -> Void) throws {
        guard let found = try pages.page(number),
            let page = TreePage(found.bytes, number: number, usableBytes: pages.usableBytes)
        else { return }
        for index in 0..<page.cellCount { try body(row(index, of: page, number, found.origin)) }
    }

    private func row(
        _ index: Int, of page: TreePage, _ number: UInt32, _ origin: AuthenticPages.Origin
    ) throws -> FoundRow {
        guard let cell = page.cell(index) else { return .lost(rowID: nil, page: number) }
        var record = Array(page.localRecord(cell))
        var origins = [origin]
        if let overflow = cell.overflow, let lost = try append(overflow, to: &record, cell.recordBytes, &origins) {
            return .lost(rowID: cell.rowID, page: lost)
        }
        guard let values = PageFormat.Record.completeValues(record[...]) else {
            return .lost(rowID: cell.rowID, page: number)
        }
        return pages.areOfOneMoment(origins)
            ? .row(rowID: cell.rowID, values: values) : .doubtful(rowID: cell.rowID, values: values)
    }

    /// The entries of the tree of an index, or the rows of a table WITHOUT ROWID, in the order of the tree, with the
    /// page of each. Rows on lost pages are missing.
    ///
    /// - Throws: The errors of reading, or of `body`.
    func forEachRowInOrder(of tree: SalvagedTree, _ body: (UInt32, FoundRow) throws -> Void) throws {
        var waiting = Set(tree.pages)
        func visit(_ number: UInt32) throws {
            // Each page once: pages that name each other in a circle would not end.
            guard waiting.remove(number) != nil, let found = try pages.page(number),
                let page = TreePage(found.bytes, number: number, usableBytes: pages.usableBytes)
            else { return }
            for index in 0..<page.cellCount {
                if let child = page.cell(index)?.child { try visit(child) }
                try body(number, row(index, of: page, number, found.origin))
            }
            if let last = page.lastChild { try visit(last) }
        }
        try visit(tree.root)
    }

    /// Whether a page of a tree is older than others may be.
    func hasOlderPages(_ tree: SalvagedTree) -> Bool {
        tree.pages.contains { page in olderPages.ranges.contains { $0.contains(page) } }
    }

    /// Appends the rest of a record, and where its pages come from.
    ///
    /// - Returns: The page that is lost; nil when the record is complete.
    /// - SeeAlso: <https://www.sqlite.org/fileformat2.html#ovflpgs>
    private func append(
        _ first: UInt32, to record: inout [UInt8], _ recordBytes: Int, _ origins: inout [AuthenticPages.Origin]
    ) throws -> UInt32? {
        var next = first
        while record.count < recordBytes {
            // A page of a tree, or a free one, is no longer a part of a row.
            guard kinds[next] == nil, !free.contains(next), let (bytes, origin) = try pages.page(next) else {
                return next
            }
            origins.append(origin)
            let count = min(recordBytes - record.count, pages.usableBytes - 4)
            record += bytes[4..<4 + count]
            let following = bytes.bigEndian(at: 0)
            if record.count < recordBytes, following == 0 { return next }
            next = following
        }
        return nil
    }

    // MARK: Schema

    /// An entry of the schema with its root page; nil for a row that is none.
    func schemaEntry(_ values: [TableReader.Value]) -> (entry: SchemaEntry, root: UInt32)? {
        guard values.count == 5, case .text(let type) = values[0], case .text(let name) = values[1],
            case .text(let table) = values[2]
        else { return nil }
        let kind = encoding.text(type)
        guard ["table", "index", "view", "trigger"].contains(kind) else { return nil }
        var root: UInt32 = 0
        if case .integer(let page) = values[3] { root = UInt32(clamping: page) }
        var sql: String?
        if case .text(let bytes) = values[4] { sql = encoding.text(bytes) }
        let entry = SchemaEntry(
            type: kind, name: encoding.text(name), table: encoding.text(table), hasPages: root > 0, sql: sql)
        return (entry, root)
    }
}

/// A value of a salvaged row, with the SQL that takes it.
struct SalvagedValue {
    let value: DatabaseValue
    /// The parameter, in SQL.
    let place: String

    init(_ value: DatabaseValue) { (self.value, place) = (value, "?") }

    /// A text in the encoding of the database, whether its bytes are valid or not.
    init(textOf bytes: [UInt8]) { (value, place) = (Data(bytes).databaseValue, StoredText.place) }
}
