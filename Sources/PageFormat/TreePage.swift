/// One decrypted page of a b-tree of SQLite: of a table, or of an index or a table WITHOUT ROWID.
///
/// The page of a tree that is damaged, or that changes while it is read, can contain anything: nothing is read beyond
/// the page, and what violates the format is nil.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#b_tree_pages>
package struct TreePage {
    /// The kind of a page, from its first byte.
    package enum Kind: UInt8, Hashable, Sendable {
        case indexInterior = 2
        case tableInterior = 5
        case indexLeaf = 10
        case tableLeaf = 13

        package var isLeaf: Bool { self == .indexLeaf || self == .tableLeaf }
        /// Whether it belongs to a table with row ids.
        package var isTable: Bool { self == .tableInterior || self == .tableLeaf }
    }

    /// A cell: a row, an entry of an index, or a pointer to a page below.
    package struct Cell: Hashable, Sendable {
        /// The page with what is before this cell; nil on leaves.
        package let child: UInt32?
        /// The row id; on interior pages the largest one of the child. Nil on pages of indexes.
        package let rowID: Int64?
        /// The length of the whole record; 0 on interior pages of tables, which have none.
        package let recordBytes: Int
        /// The part of the record that is in this page.
        package let local: Range<Int>
        /// The first page with the rest of the record.
        package let overflow: UInt32?
    }

    package let kind: Kind
    /// The page with what is after all cells; nil on leaves.
    package let lastChild: UInt32?
    package let cellCount: Int
    private let bytes: [UInt8]
    /// The offset of the page's own header.
    private let start: Int
    private let usableBytes: Int

    /// Reads the header of a page; nil when the page is not one of a b-tree.
    ///
    /// - Parameters:
    ///   - bytes: The page as SQLite sees it.
    ///   - usableBytes: Bytes of a page that SQLite uses for itself.
    package init?(_ bytes: [UInt8], number: UInt32, usableBytes: Int) {
        let start = number == TableReader.schemaRoot ? DatabaseHeader.headerBytes : 0
        let usable = min(usableBytes, bytes.count)
        guard start < usable, let kind = Kind(rawValue: bytes[start]),
            start + Self.headerBytes(kind) <= usable
        else { return nil }
        let count = Int(bytes.bigEndian(at: start + 3, as: UInt16.self))
        guard start + Self.headerBytes(kind) + 2 * count <= usable else { return nil }
        self.kind = kind
        cellCount = count
        lastChild = kind.isLeaf ? nil : bytes.bigEndian(at: start + 8, as: UInt32.self)
        self.bytes = bytes
        self.start = start
        self.usableBytes = usable
    }

    private static func headerBytes(_ kind: Kind) -> Int { kind.isLeaf ? 8 : 12 }

    /// A cell by its position; nil when it violates the format.
    package func cell(_ index: Int) -> Cell? {
        guard index >= 0, index < cellCount else { return nil }
        let pointer = start + Self.headerBytes(kind) + 2 * index
        var place = Int(bytes.bigEndian(at: pointer, as: UInt16.self))
        var child: UInt32?
        if !kind.isLeaf {
            guard place + 4 <= usableBytes else { return nil }
            child = bytes.bigEndian(at: place, as: UInt32.self)
            place += 4
        }
        if kind == .tableInterior {
            guard let rowID = varint(&place) else { return nil }
            return Cell(child: child, rowID: rowID, recordBytes: 0, local: place..<place, overflow: nil)
        }
        guard let count = varint(&place), let length = Int(exactly: count), (0...Self.longestRecord).contains(length)
        else { return nil }
        var rowID: Int64?
        if kind.isTable {
            guard let number = varint(&place) else { return nil }
            rowID = number
        }
        let local = localBytes(of: length)
        guard place + local + (local < length ? 4 : 0) <= usableBytes else { return nil }
        let overflow = local < length ? bytes.bigEndian(at: place + local, as: UInt32.self) : nil
        return Cell(
            child: child, rowID: rowID, recordBytes: length, local: place..<place + local, overflow: overflow)
    }

    /// SQLite's largest record, in bytes.
    private static let longestRecord = 0x7fff_ffff

    /// The bytes of a cell's record that are in this page.
    package func localRecord(_ cell: Cell) -> ArraySlice<UInt8> { bytes[cell.local] }

    /// How many bytes of a record are in its page.
    private func localBytes(of length: Int) -> Int {
        let most = kind.isTable ? usableBytes - 35 : (usableBytes - 12) * 64 / 255 - 23
        guard length > most else { return length }
        let least = (usableBytes - 12) * 32 / 255 - 23
        let local = least + (length - least) % (usableBytes - 4)
        return local <= most ? local : least
    }

    private func varint(_ place: inout Int) -> Int64? { Record.varint(bytes[..<usableBytes], &place) }
}
