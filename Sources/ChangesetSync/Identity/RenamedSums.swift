import CipherDatabase

/// Divides the sums of counters between the former author of renamed commits and the present one. Inside a transaction.
///
/// A sum counts the steps of one branch of an author. The steps of the renamed commits leave it and make a sum of their
/// own, so all stores count each step once.
///
/// Limit: a member that has the refused commits under their former names counts their steps twice. The store that joins
/// again says only by its later commits that it has those of that member.
final class RenamedSums {
    /// A counter in one incarnation of a row.
    struct Counter: Hashable {
        let place: RowPlace
        let column: Int64
        let origin: Int64
    }

    /// A sum after the division.
    struct Part {
        let branch: Int64
        let sum: BaseRow.Sum
    }

    private unowned let commits: RenamedCommits
    /// The totals of the renamed commits after each that has added to a counter.
    private var totals: [Counter: [(place: Int, total: Int64)]] = [:]
    /// The last accepted commit that has added to a counter, by its branch.
    private var formerSteps: [Int64: FormerSteps] = [:]

    private struct FormerSteps {
        var last: [Counter: Int64] = [:]
        /// The latest commit whose writes are forgotten.
        var forgotten: Int64?
    }

    init(_ commits: RenamedCommits) { self.commits = commits }

    private var db: Database { commits.work.db }
    private var catalog: Catalog { commits.work.catalog }

    func counter(_ table: Name, _ key: Cells, _ column: ColumnID, of origin: Int64) throws -> Counter {
        let n = try catalog.number(of: table)
        return Counter(
            place: RowPlace(table: n, key: RowKey(key)), column: try catalog.column(column, of: n), origin: origin)
    }

    /// Notes the steps of a renamed commit.
    func note(_ write: Write, of origin: Int64, _ place: Int) throws {
        for (column, step) in zip(write.shape.counters, write.steps) {
            let counter = try counter(write.shape.table, write.key, column, of: origin)
            let last = totals[counter]?.last
            // A sum counts one step of each commit.
            if last?.place == place { continue }
            totals[counter, default: []].append((place, (last?.total ?? 0) &+ step))
        }
    }

    /// The parts of a sum of a branch of the former author.
    ///
    /// - Returns: nil if no renamed commit has added to it.
    func divided(_ sum: BaseRow.Sum, _ counter: Counter, ofBranch branch: Int64) throws -> [Part]? {
        guard let last = commits.place(of: sum.last), commits.place(of: branch) == nil,
            let own = totals[counter]?.last(where: { $0.place <= last })
        else { return nil }
        var parts = [Part(branch: commits.numbers[0], sum: BaseRow.Sum(last: sum.last, total: own.total))]
        let rest = sum.total &- own.total
        if let former = try formerLast(counter, branch, rest) {
            parts.append(Part(branch: branch, sum: BaseRow.Sum(last: former, total: rest)))
        }
        return parts
    }

    /// The last accepted commit that has added to a counter; nil if none has.
    private func formerLast(_ counter: Counter, _ branch: Int64, _ total: Int64) throws -> Int64? {
        let steps = try formerSteps[branch] ?? readFormerSteps(branch)
        formerSteps[branch] = steps
        // Without its writes, no later commit than that one has added to it.
        return steps.last[counter] ?? (total == 0 ? nil : steps.forgotten ?? commits.base)
    }

    private func readFormerSteps(_ branch: Int64) throws -> FormerSteps {
        var steps = FormerSteps()
        var next = commits.base
        while let n = next, try commits.index.entry(n).branch == branch {
            if let commit = try commits.work.commits.commit(n, in: commits.work.state.repository)?.commit {
                let context = try commits.work.commits.context(of: n)
                for write in commit.writes where !write.steps.isEmpty {
                    let origin = try write.incarnation.map { try commits.index.resolve($0, in: context) } ?? n
                    for column in write.shape.counters {
                        let counter = try counter(write.shape.table, write.key, column, of: origin)
                        if steps.last[counter] == nil { steps.last[counter] = n }
                    }
                }
            } else if steps.forgotten == nil {
                steps.forgotten = n
            }
            let parent = try commits.index.entry(n).parent
            next = parent == n ? nil : parent
        }
        return steps
    }

    // MARK: Rows of the base

    /// Divides the sums of all rows to which renamed commits have added.
    func divideStored() throws {
        for place in Set(totals.keys.map(\.place)) {
            try divideSums(place)
            for table in [EngineTables.aside, EngineTables.grave] { try divideRows(place, table) }
            try divideTombstones(place)
        }
    }

    private func divideSums(_ place: RowPlace) throws {
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored)]
        var found: [(incarnation: Int64, counter: Counter, branch: Int64, sum: BaseRow.Sum)] = []
        try db.cachedStatement(
            sql: """
                SELECT incarnation, col, origin, branch, last, total FROM \(EngineTables.sum)
                WHERE tbl = ? AND key = ?
                """
        ).forEach(key) { row in
            found.append(
                (
                    row.integer(0), Counter(place: place, column: row.integer(1), origin: row.integer(2)),
                    row.integer(3), BaseRow.Sum(last: row.integer(4), total: row.integer(5))
                ))
        }
        for (incarnation, counter, branch, sum) in found {
            guard let parts = try divided(sum, counter, ofBranch: branch) else { continue }
            let source = key + [.integer(incarnation), .integer(counter.column), .integer(counter.origin)]
            try db.cachedStatement(
                sql: """
                    DELETE FROM \(EngineTables.sum)
                    WHERE tbl = ? AND key = ? AND incarnation = ? AND col = ? AND origin = ? AND branch = ?
                    """
            ).execute(exact: source + [.integer(branch)])
            for part in parts {
                try db.cachedStatement(
                    sql: """
                        INSERT INTO \(EngineTables.sum) (tbl, key, incarnation, col, origin, branch, last, total)
                        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                        """
                ).execute(exact: source + [.integer(part.branch), .integer(part.sum.last), .integer(part.sum.total)])
            }
        }
    }

    /// - Parameter table: One whose rows have a row of the base each, or NULL.
    private func divideRows(_ place: RowPlace, _ table: String) throws {
        for (incarnation, bytes) in try rows(of: place, "row", table) {
            var row = try BaseRow(bytes)
            guard try divide(&row, place) else { continue }
            try set("row", row.bytes, of: place, incarnation, table)
        }
    }

    private func divideTombstones(_ place: RowPlace) throws {
        for (incarnation, detail) in try rows(of: place, "detail", EngineTables.dead) {
            var tombstone = try Tombstone(known: LocalVector(), detail: detail)
            guard var row = tombstone.row, try divide(&row, place) else { continue }
            tombstone.row = row
            try set("detail", tombstone.detail, of: place, incarnation, EngineTables.dead)
        }
    }

    /// - Returns: Whether a sum was divided.
    private func divide(_ row: inout BaseRow, _ place: RowPlace) throws -> Bool {
        var isChanged = false
        for (column, sums) in row.sums {
            for (source, sum) in sums {
                let counter = Counter(place: place, column: column, origin: source.origin)
                guard let parts = try divided(sum, counter, ofBranch: source.branch) else { continue }
                row.sums[column]?[source] = nil
                for part in parts {
                    row.sums[column]?[BaseRow.Source(origin: source.origin, branch: part.branch)] = part.sum
                }
                isChanged = true
            }
        }
        return isChanged
    }

    private func rows(of place: RowPlace, _ column: String, _ table: String) throws -> [(Int64, [UInt8])] {
        var found: [(Int64, [UInt8])] = []
        try db.cachedStatement(
            sql: "SELECT incarnation, \(column) FROM \(table) WHERE tbl = ? AND key = ? AND \(column) IS NOT NULL"
        ).forEach([.integer(place.table), ExactValue(place.key.stored)]) {
            found.append(($0.integer(0), $0.bytes(1)))
        }
        return found
    }

    private func set(
        _ column: String, _ bytes: [UInt8], of place: RowPlace, _ incarnation: Int64, _ table: String
    ) throws {
        try db.cachedStatement(
            sql: "UPDATE \(table) SET \(column) = ? WHERE tbl = ? AND key = ? AND incarnation = ?"
        ).execute(exact: [
            ExactValue(bytes), .integer(place.table), ExactValue(place.key.stored), .integer(incarnation),
        ])
    }
}
