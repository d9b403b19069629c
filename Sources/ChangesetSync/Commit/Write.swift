/// The change of one row by a commit.
///
/// Cells are encoded (``Cells``), so a row of a body is read without a copy.
package struct Write: Hashable, Sendable {
    var shape: WriteShape
    /// The values of the primary key, in the order of the key's columns. None is NULL, unless the table admits it.
    var key: Cells
    /// The insertion of the row; nil if this write is an insertion.
    var incarnation: Dot?
    /// One value for each of ``WriteShape/columns``.
    var values: Cells
    /// The sum that was added to each of ``WriteShape/counters``.
    var steps: [Int64]
    /// Commits whose values the row had, and that the context of the commit does not cover (F8). Ascending.
    var seen: [Dot]
    /// The era of the stamps of this write (F1).
    var era: UInt32
    /// The whole row, if the write is a revival (F3, F4).
    var copied: CopiedRow?
    /// The incarnations of the key that the write revives. Ascending.
    var revives: [Dot]

    init(
        _ shape: WriteShape, key: Cells, incarnation: Dot? = nil, values: Cells = Cells(), steps: [Int64] = [],
        seen: [Dot] = [], era: UInt32 = 0, copied: CopiedRow? = nil, revives: [Dot] = []
    ) {
        self.shape = shape
        self.key = key
        self.incarnation = incarnation
        self.values = values
        self.steps = steps
        self.seen = seen
        self.era = era
        self.copied = copied
        self.revives = revives
    }
}

/// The common part of the writes of many rows. Consecutive writes of a commit share one object.
final class WriteShape: Hashable, Sendable {
    enum Kind: UInt8, Sendable {
        case insert = 0
        case update = 1
        case delete = 2
    }

    let kind: Kind
    let table: Name
    /// How many cells the primary key has.
    let keyCount: Int
    /// The columns of ``Write/values``, ascending. A deletion has none.
    let columns: [ColumnID]
    /// The columns of ``Write/steps``, ascending. A deletion has none.
    let counters: [ColumnID]

    init(
        _ kind: Kind, _ table: Name, keyCount: Int, columns: [ColumnID] = [], counters: [ColumnID] = []
    ) {
        self.kind = kind
        self.table = table
        self.keyCount = keyCount
        self.columns = columns
        self.counters = counters
    }

    package static func == (one: WriteShape, other: WriteShape) -> Bool {
        one === other
            || (one.kind == other.kind && one.keyCount == other.keyCount && one.table == other.table
                && one.columns == other.columns && one.counters == other.counters)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        hasher.combine(table)
        hasher.combine(columns)
        hasher.combine(counters)
    }
}

/// A row with its stamps and sums, as a revival copies it.
struct CopiedRow: Hashable, Sendable {
    struct Cell: Hashable, Sendable {
        let column: ColumnID
        let stamp: Stamp
        /// One cell.
        let value: Cells
    }

    /// The sum that one branch of an author has added to a counter since an incarnation.
    struct Sum: Hashable, Sendable {
        let column: ColumnID
        /// The incarnation in which the sum began.
        let origin: Dot
        /// The last commit that the sum counts.
        let last: Dot
        let total: Int64
    }

    /// The insertion of the row, which is its age.
    let born: Stamp
    /// By ascending columns.
    let cells: [Cell]
    /// By ascending columns, origins and last commits.
    let sums: [Sum]

    init(born: Stamp, cells: [Cell], sums: [Sum] = []) {
        self.born = born
        self.cells = cells
        self.sums = sums
    }
}
