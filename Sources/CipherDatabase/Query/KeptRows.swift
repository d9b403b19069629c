// Rows that are kept without an object for each: those of an association, most of which are read as records only.

/// All rows of a statement, in blocks.
package final class KeptRows {
    private let columns: RowColumns
    private let blocks: [RowBlock]
    /// The first row of each block.
    private let starts: [Int]
    /// The values of each row.
    private let addresses: [UnsafeRawPointer]

    /// The rows of a statement that has its arguments.
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

    package var count: Int { addresses.count }

    /// The leftmost column of a name.
    package func index(of name: String) -> Int? { columns.index(of: name) }

    /// The integer of a column; nil for every other stored value.
    package func storedInteger(_ row: Int, _ column: Int) -> Int64? {
        let value = StoredValue(in: addresses[row], at: column)
        if value.kind == .small { return Int64(value.word) }
        if case .int64(let number) = value.value.storage { return number }
        return nil
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
        var row = lent.take() ?? Row(showing: LentRowSource(blocks, columns: columns), at: values)
        row.show(values)
        defer {
            // A row that somebody keeps shows no others.
            if isKnownUniquelyReferenced(&row) { lent = row } else { row.settle(in: block(of: index)) }
        }
        return try body(row)
    }
}

extension PrefetchedGroup {
    /// Calls `body` with each row. A row is valid until `body` returns, unless somebody keeps it.
    package func forEachLentRow(_ body: (Row) throws -> Void) rethrows {
        guard case .kept(let rows) = rows else { return try forEach(body) }
        var lent: Row?
        for position in indices { try rows.lend(place(of: position), by: &lent, body) }
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
