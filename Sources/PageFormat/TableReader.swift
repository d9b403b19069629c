/// Finds rows of SQLite's tables in decrypted pages, without a connection.
///
/// Only the values in a row's own page are read: of a long row the first ones. The pages of a tree that is damaged, or
/// that changes while it is read, can contain anything: nothing is read beyond a page, and no more pages than there
/// are.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#b_tree_pages>
package struct TableReader {
    /// A value of a row.
    package enum Value: Hashable, Sendable {
        case null
        case integer(Int64)
        /// Eight bytes of a floating point number.
        case real([UInt8])
        case blob([UInt8])
        /// In the encoding of the database.
        case text([UInt8])
    }

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
    /// - Throws: ``PageFormatError/damagedTree(page:)``; what reading a page throws.
    package func first<Result>(inTree root: UInt32, _ match: (Row) throws -> Result?) throws -> Result? {
        var waiting = [root]
        var pagesLeft = pageCount
        while let number = waiting.popLast() {
            guard pagesLeft > 0, (1...pageCount).contains(number) else {
                throw PageFormatError.damagedTree(page: number)
            }
            pagesLeft -= 1
            let page = TreePage(try readPage(number), number: number, usableBytes: usableBytes)
            switch page.content() {
            case nil: throw PageFormatError.damagedTree(page: number)
            case .children(let pages): waiting += pages.reversed()
            case .rows(let places):
                for place in places {
                    guard let row = page.row(at: place) else { throw PageFormatError.damagedTree(page: number) }
                    if let found = try match(row) { return found }
                }
            }
        }
        return nil
    }
}

/// One page of a table's tree. Whatever violates the format returns nil.
private struct TreePage {
    enum Content {
        case children([UInt32])
        /// The offsets of the rows.
        case rows([Int])
    }

    private static let interior: UInt8 = 5
    private static let leaf: UInt8 = 13

    private let bytes: [UInt8]
    /// The offset of the b-tree page header.
    private let start: Int
    private let usableBytes: Int

    init(_ bytes: [UInt8], number: UInt32, usableBytes: Int) {
        self.bytes = bytes
        start = number == TableReader.schemaRoot ? DatabaseHeader.headerBytes : 0
        self.usableBytes = min(usableBytes, bytes.count)
    }

    func content() -> Content? {
        guard let kind = number(at: start, bytes: 1), let cells = number(at: start + 3, bytes: 2) else { return nil }
        let isLeaf = kind == Self.leaf
        guard isLeaf || kind == Self.interior else { return nil }
        let pointers = (0..<Int(cells)).map { number(at: start + (isLeaf ? 8 : 12) + 2 * $0, bytes: 2) }
        if isLeaf { return all(pointers).map { .rows($0.map { Int($0) }) } }
        let children = pointers.map { $0.flatMap { number(at: Int($0), bytes: 4) } }
        return all(children + [number(at: start + 8, bytes: 4)]).map { .children($0.map { UInt32($0) }) }
    }

    private func all<T>(_ values: [T?]) -> [T]? {
        let found = values.compactMap(\.self)
        return found.count == values.count ? found : nil
    }

    // MARK: Rows

    func row(at offset: Int) -> TableReader.Row? {
        var place = offset
        guard let payload = varint(&place), let rowID = varint(&place), let length = Int(exactly: payload), length >= 0
        else { return nil }
        let end = place + localBytes(of: length)
        guard end <= usableBytes else { return nil }
        return TableReader.Row(number: rowID, values: values(place, end))
    }

    /// How many bytes of a row are in its page.
    private func localBytes(of length: Int) -> Int {
        let most = usableBytes - 35
        guard length > most else { return length }
        let least = (usableBytes - 12) * 32 / 255 - 23
        let local = least + (length - least) % (usableBytes - 4)
        return local <= most ? local : least
    }

    /// The values of a record between two offsets, up to the first that ends after them.
    private func values(_ start: Int, _ end: Int) -> [TableReader.Value] {
        var type = start
        guard let headerBytes = varint(&type), let first = Int(exactly: headerBytes),
            first > 0, first <= end - start
        else { return [] }
        var place = start + first
        var values: [TableReader.Value] = []
        let typesEnd = place
        while type < typesEnd, let code = varint(&type), let value = value(code, &place, end) { values.append(value) }
        return values
    }

    private func value(_ code: Int64, _ place: inout Int, _ end: Int) -> TableReader.Value? {
        let length: Int
        switch code {
        case 0, 8, 9: length = 0
        case 1...4: length = Int(code)
        case 5: length = 6
        case 6, 7: length = 8
        case 12...: length = Int(code - 12) / 2
        default: return nil
        }
        guard length <= end - place else { return nil }
        defer { place += length }
        switch code {
        case 0: return .null
        case 8: return .integer(0)
        case 9: return .integer(1)
        case 1...6: return number(at: place, bytes: length).map { .integer(signed($0, bytes: length)) }
        case 7: return .real(Array(bytes[place..<place + length]))
        default:
            let content = Array(bytes[place..<place + length])
            return code % 2 == 0 ? .blob(content) : .text(content)
        }
    }

    // MARK: Numbers

    /// An unsigned big-endian number.
    private func number(at offset: Int, bytes count: Int) -> Int64? {
        guard offset >= 0, offset + count <= usableBytes else { return nil }
        var value: UInt64 = 0
        for byte in bytes[offset..<offset + count] { value = value << 8 | UInt64(byte) }
        return Int64(bitPattern: value)
    }

    /// The same number as a signed one.
    private func signed(_ value: Int64, bytes count: Int) -> Int64 {
        let unused = 64 - 8 * count
        return (value << unused) >> unused
    }

    /// SQLite's varint of 1 to 9 bytes: seven bits each, all eight of the ninth.
    private func varint(_ place: inout Int) -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard place < usableBytes else { return nil }
            let byte = bytes[place]
            place += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7f)
            if byte < 0x80 { break }
        }
        return Int64(bitPattern: value)
    }
}
