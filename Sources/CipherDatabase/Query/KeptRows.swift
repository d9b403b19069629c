// Rows that are kept without an object for each: those of an association and of the request that includes it, most of
// which are read as records only.

/// All rows of a statement, in blocks.
@usableFromInline
package final class KeptRows {
    let columns: RowColumns
    private let blocks: [RowBlock]
    /// The first row of each block.
    private let starts: [Int]
    /// The values of each row.
    private let addresses: [UnsafeRawPointer]

    /// The rows of a statement that has its arguments.
    @usableFromInline
    package init(_ statement: Statement) throws {
        var steps = try StatementSteps(statement, arguments: nil)
        guard try steps.advance() else {
            (columns, blocks, starts, addresses) = (statement.columns, [], [], [])
            return
        }
        // Read after the first step, which compiles the statement again after a schema change.
        columns = statement.columns
        var keeper = RowKeeper(columns: columns)
        var (blocks, starts, addresses) = ([keeper.block], [0], [UnsafeRawPointer]())
        repeat {
            while true {
                if let address = keeper.block.appendValues(of: steps.handle) {
                    addresses.append(address)
                    break
                }
                if keeper.block.isEmpty { blocks.removeLast() } else { starts.append(addresses.count) }
                keeper.addBlock()
                blocks.append(keeper.block)
            }
        } while try steps.advance()
        (self.blocks, self.starts, self.addresses) = (blocks, starts, addresses)
    }

    @usableFromInline package var count: Int { addresses.count }

    /// The leftmost column of a name.
    package func index(of name: String) -> Int? { columns.index(of: name) }

    /// The integer of a column; nil for every other stored value.
    package func storedInteger(_ row: Int, _ column: Int) -> Int64? {
        let value = StoredValue(in: addresses[row], at: column)
        if value.kind == .small { return Int64(value.word) }
        if case .int64(let number) = value.value.storage { return number }
        return nil
    }

    /// The stored value of a column.
    package func databaseValue(_ row: Int, _ column: Int) -> DatabaseValue {
        StoredValue(in: addresses[row], at: column).value
    }

    /// A row as an object of its own.
    package subscript(row: Int) -> Row { Row(addresses[row], of: block(of: row)) }

    /// All rows, each as an object of its own.
    package var objects: [Row] { (0..<count).map { self[$0] } }

    fileprivate func block(of row: Int) -> RowBlock {
        var (low, high) = (0, starts.count - 1)
        while low < high {
            let middle = (low + high + 1) / 2
            if starts[middle] <= row { low = middle } else { high = middle - 1 }
        }
        return blocks[low]
    }

    /// Calls `body` with a row that shows one of them, and makes it where there is none.
    @inline(__always)
    fileprivate func lend<Value>(_ index: Int, by lent: inout Row?, _ body: (Row) throws -> Value) rethrows -> Value {
        let values = addresses[index]
        var row = lent.take() ?? Row(showing: LentRowSource(self), at: values)
        row.show(values)
        defer {
            // A row that somebody keeps shows no others.
            if isKnownUniquelyReferenced(&row) { lent = row } else { row.settle(in: block(of: index)) }
        }
        return try body(row)
    }

    /// Calls `body` with some of the rows, one after another.
    ///
    /// - Parameter lent: The row that showed others of them; the one that shows the next ones afterwards.
    fileprivate func lendAll(_ group: PrefetchedGroup, by lent: inout Row?, _ body: (Row) throws -> Void) rethrows {
        guard let first = group.indices.first else { return }
        var row = lent.take() ?? Row(showing: LentRowSource(self), at: addresses[group.place(of: first)])
        defer { lent = row }
        for position in group.indices {
            let index = group.place(of: position)
            row.show(addresses[index])
            // A row that somebody keeps shows no others.
            defer {
                if !isKnownUniquelyReferenced(&row) {
                    row.settle(in: block(of: index))
                    row = Row(showing: LentRowSource(self), at: addresses[index])
                }
            }
            try body(row)
        }
    }

    /// Calls `body` with each row, and with what was prefetched for it. A row is valid until `body` returns, unless
    /// somebody keeps it.
    @usableFromInline
    package func forEachLentRow(with prefetched: PrefetchedRows, _ body: (Row) throws -> Void) rethrows {
        let layout = RowLayout(columns)
        var lent: Row?
        for index in addresses.indices {
            try lend(index, prefetched, layout, by: &lent, body)
        }
    }

    private func lend(
        _ index: Int, _ prefetched: PrefetchedRows, _ layout: RowLayout, by lent: inout Row?,
        _ body: (Row) throws -> Void
    ) rethrows {
        let values = addresses[index]
        var row = lent.take() ?? Row(showing: adapted(values, prefetched, layout))
        guard let source = row.adaptation else { return }
        source.show(values, at: index)
        row.show(values)
        defer {
            // A row that somebody keeps shows no others. Its parts are made of its base.
            if isKnownUniquelyReferenced(&row), !source.hasSharedBase {
                lent = row
            } else {
                source.lentRow = nil
                source.base.settle(in: block(of: index))
                row.settleAlone()
            }
        }
        try body(row)
    }

    private func adapted(
        _ values: UnsafeRawPointer, _ prefetched: PrefetchedRows, _ layout: RowLayout
    ) -> AdaptedSource {
        AdaptedSource(
            base: Row(showing: LentRowSource(self), at: values), layout: layout,
            prefetched: OwnPrefetchedRows(all: prefetched, index: 0))
    }
}

extension PrefetchedGroup {
    /// Calls `body` with each row. A row is valid until `body` returns, unless somebody keeps it.
    package func forEachLentRow(_ body: (Row) throws -> Void) rethrows {
        guard case .kept(let rows) = rows else { return try forEach(body) }
        // Taken out: a record may read the same rows while it is read.
        var lent = lender?.lentRow.take()
        if let source = lent?.source as? LentRowSource, source.rows !== rows { lent = nil }
        defer { lender?.lentRow = lent }
        try rows.lendAll(self, by: &lent, body)
    }

    /// Calls `body` with a row, counted from 0, that is valid until `body` returns, unless somebody keeps it.
    ///
    /// - Parameter lent: The row that showed another one of the group.
    package func withLentRow<Value>(
        at index: Int, by lent: inout Row?, _ body: (Row) throws -> Value
    ) rethrows -> Value {
        let position = startIndex + index
        guard case .kept(let rows) = rows else { return try body(self[position]) }
        return try rows.lend(place(of: position), by: &lent, body)
    }
}
