/// The change of one row by a commit.
///
/// Cells are encoded (``Cells``), so a row of a body is read without a copy.
package struct Write: Hashable, Sendable {
    package var shape: WriteShape
    /// The values of the primary key, in the order of the key's columns. None is NULL, unless the table admits it.
    package var key: Cells
    /// The insertion of the row; nil if this write is an insertion.
    package var incarnation: Dot?
    /// One value for each of ``WriteShape/columns``.
    package var values: Cells
    /// The sum that was added to each of ``WriteShape/counters``.
    package var steps: [Int64]
    /// Commits whose values the row had, and that the context of the commit does not cover (F8). Ascending.
    package var seen: [Dot]
    /// The era of the stamps of this write (F1).
    package var era: UInt32
    /// The whole row, if the write is a revival (F3, F4).
    package var copied: CopiedRow?
    /// The incarnations of the key that the write revives. Ascending.
    package var revives: [Dot]

    package init(
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
package final class WriteShape: Hashable, Sendable {
    package enum Kind: UInt8, Sendable {
        case insert = 0
        case update = 1
        case delete = 2
    }

    package let kind: Kind
    package let table: Name
    /// How many cells the primary key has.
    package let keyCount: Int
    /// The columns of ``Write/values``, ascending. A deletion has none.
    package let columns: [ColumnID]
    /// The columns of ``Write/steps``, ascending. A deletion has none.
    package let counters: [ColumnID]

    package init(
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
package struct CopiedRow: Hashable, Sendable {
    package struct Cell: Hashable, Sendable {
        package let column: ColumnID
        package let stamp: Stamp
        /// One cell.
        package let value: Cells

        package init(column: ColumnID, stamp: Stamp, value: Cells) {
            self.column = column
            self.stamp = stamp
            self.value = value
        }
    }

    /// The sum that one branch of an author has added to a counter since an incarnation.
    package struct Sum: Hashable, Sendable {
        package let column: ColumnID
        /// The incarnation in which the sum began.
        package let origin: Dot
        /// The last commit that the sum counts.
        package let last: Dot
        package let total: Int64

        package init(column: ColumnID, origin: Dot, last: Dot, total: Int64) {
            self.column = column
            self.origin = origin
            self.last = last
            self.total = total
        }
    }

    /// The insertion of the row, which is its age.
    package let born: Stamp
    /// By ascending columns.
    package let cells: [Cell]
    /// By ascending columns, origins and last commits.
    package let sums: [Sum]

    package init(born: Stamp, cells: [Cell], sums: [Sum] = []) {
        self.born = born
        self.cells = cells
        self.sums = sums
    }
}
