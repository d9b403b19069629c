/// Who has written the rows on one side of a merge: for each cell the last ordinary commit that wrote it.
struct RowWriters {
    struct Writer: Comparable {
        let stamp: CommitStamp
        let n: Int64

        static func < (left: Writer, right: Writer) -> Bool { left.stamp < right.stamp }
        static func == (left: Writer, right: Writer) -> Bool { left.n == right.n }
    }

    /// The writers of one row.
    struct Row {
        /// The last commit that has deleted it.
        fileprivate(set) var deletion: Writer?
        /// By column; nil where no commit of the side has written it.
        fileprivate(set) var cells: [Writer?]

        /// The last one who has written anything of the row.
        var last: Writer? { cells.compactMap { $0 }.max() }
    }

    private var rows: [String: [RowKey: Row]] = [:]

    /// - Parameters:
    ///   - commits: The commits of the side.
    ///   - delta: Reads the delta of an ordinary commit, with the columns of the tables.
    init(
        _ commits: Set<Int64>, _ graph: CommitGraph, author: (Int64) throws -> AuthorID, delta: (Int64) throws -> Delta
    ) throws {
        for n in commits {
            let node = try graph.node(n)
            guard node.kind != .merge else { continue }
            let stamp = CommitStamp(time: node.time, author: try author(node.author), id: node.id)
            for entry in try delta(n).tables { add(entry, Writer(stamp: stamp, n: n)) }
        }
    }

    private mutating func add(_ entry: TableDelta, _ writer: Writer) {
        for change in entry.changes {
            let key = entry.table.key(of: change.keyRecord)
            var row = rows[entry.table.name]?[key] ?? Row(cells: entry.table.columns.map { _ in nil })
            switch (change.operation, change.new) {
            case (.delete, _): row.deletion = max(row.deletion ?? writer, writer)
            case (_, let new?):
                for (column, value) in new.enumerated() {
                    if case .undefined = value { continue }
                    row.cells[column] = max(row.cells[column] ?? writer, writer)
                }
            default: break
            }
            rows[entry.table.name, default: [:]][key] = row
        }
    }

    subscript(table: String, key: RowKey) -> Row? { rows[table]?[key] }
}
