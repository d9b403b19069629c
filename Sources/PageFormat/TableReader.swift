/// Finds rows of SQLite's tables in decrypted pages, without a connection.
///
/// Only the values in a row's own page are read: of a long row the first ones. The pages of a tree that is damaged, or
/// that changes while it is read, can contain anything: nothing is read beyond a page, and no more pages than there
/// are.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#b_tree_pages>
package struct TableReader {
    package typealias Value = Record.Value

    /// A row: its rowid, and its first values, as far as they are in its page.
    package struct Row: Hashable, Sendable {
        package let number: Int64
        package let values: [Value]
    }

    /// The root page of the schema table.
    package static let schemaRoot: UInt32 = 1

    private let pageCount: UInt32
    private let usableBytes: Int
    private let readPage: (UInt32) throws -> [UInt8]

    /// - Parameters:
    ///   - pageCount: Pages of the database.
    ///   - usableBytes: Bytes of a page that SQLite uses for itself.
    ///   - readPage: Returns a page as SQLite sees it.
    package init(pageCount: UInt32, usableBytes: Int, readPage: @escaping (UInt32) throws -> [UInt8]) {
        self.pageCount = pageCount
        self.usableBytes = usableBytes
        self.readPage = readPage
    }

    /// The first result of `match` that is not nil, in the order of the rows.
    ///
    /// - Parameter root: The root page of the table.
    /// - Throws: ``PageFormatError/damagedTree(page:)``, ``PageFormatError/missingPage(_:)``; what reading a page throws.
    package func first<Result>(inTree root: UInt32, _ match: (Row) throws -> Result?) throws -> Result? {
        var waiting = [root]
        var pagesLeft = pageCount
        while let number = waiting.popLast() {
            guard number <= pageCount else { throw PageFormatError.missingPage(number) }
            guard pagesLeft > 0, number > 0 else { throw PageFormatError.damagedTree(page: number) }
            pagesLeft -= 1
            guard let page = TreePage(try readPage(number), number: number, usableBytes: usableBytes), page.kind.isTable
            else { throw PageFormatError.damagedTree(page: number) }
            let cells = (0..<page.cellCount).map { page.cell($0) }
            guard let last = page.lastChild else {
                if let found = try first(in: page, number, cells, match) { return found }
                continue
            }
            let children = cells.map { $0?.child } + [last]
            waiting += try children.reversed().map { child in
                guard let child else { throw PageFormatError.damagedTree(page: number) }
                return child
            }
        }
        return nil
    }

    private func first<Result>(
        in page: TreePage, _ number: UInt32, _ cells: [TreePage.Cell?], _ match: (Row) throws -> Result?
    ) throws -> Result? {
        for cell in cells {
            guard let cell, let rowID = cell.rowID else { throw PageFormatError.damagedTree(page: number) }
            if let found = try match(Row(number: rowID, values: Record.values(page.localRecord(cell)))) { return found }
        }
        return nil
    }
}
