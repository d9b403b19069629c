import CipherDatabase
import StoreCrypto

/// The result of comparing the rows of a store with what its commits say.
public struct SyncVerification: Hashable, Sendable {
    public enum Difference: Hashable, Sendable {
        /// No commit has the row: it was written outside of commits.
        case unrecorded(table: String, key: [DatabaseValue])
        /// The row is not in the table, and no commit has deleted it.
        case missing(table: String, key: [DatabaseValue])
        /// The table has no such row or other values, and no reason is known.
        case other(table: String, key: [DatabaseValue])
    }

    /// ``Head/uuid``; nil before the first commit.
    public let head: String?
    /// A hash of the rows that the commits make, hidden ones and unknown columns included: 64 hexadecimal digits. It is equal
    /// on devices with equal heads. If it is not, one of them is damaged.
    public let digest: String
    /// At most 1,000.
    public let differences: [Difference]
}

extension ChangesetRepository {
    /// Reads all rows, compares them with what the commits say, and makes a digest for the comparison with other devices.
    ///
    /// - Throws: `DatabaseError`.
    public func verify() throws -> SyncVerification {
        try looking { work in
            var verifier = try Verifier(work)
            try verifier.readBase()
            try verifier.readTables()
            return SyncVerification(
                head: work.state.head?.description, digest: try verifier.digest(), differences: verifier.differences)
        }
    }
}

/// Reads the base and the tables in batches.
private struct Verifier: ~Copyable {
    private static let batch = 1_000
    private static let mostDifferences = 1_000

    private let work: Work
    private var content: ContentDigest
    private(set) var differences: [SyncVerification.Difference] = []

    init(_ work: Work) throws {
        self.work = work
        content = try ContentDigest()
    }

    mutating func digest() throws -> String { try CommitHash(bytes: content.current())?.description ?? "" }

    private mutating func note(_ difference: SyncVerification.Difference) {
        if differences.count < Self.mostDifferences { differences.append(difference) }
    }

    // MARK: The base

    mutating func readBase() throws {
        var last: (table: Name, key: RowKey)?
        while true {
            // A base keeps each key that it has read in memory.
            let base = Base(work.db, work.index, work.catalog)
            let places = try BaseKeys(db: work.db, catalog: work.catalog, stored: base.stored)
                .next(after: last, limit: Self.batch)
            for place in places { try read(place, base) }
            guard let end = places.last else { return }
            last = (try work.catalog.table(end.table).name, end.key)
        }
    }

    private mutating func read(_ place: RowPlace, _ base: Base) throws {
        let table = try work.catalog.table(place.table)
        let key = place.key.values.map(\.databaseValue)
        let state: KeyState
        do {
            state = try base.state(place)
        } catch let error as EngineError where error.code == .damagedStore {
            return note(.missing(table: table.name.text, key: key))
        }
        guard let row = try state.merged(work.index) else { return }
        add(place, row, table)
        guard table.local != nil else { return }
        let candidate = try Candidate(place, state, table, work.index)
        if try !base.wasAside(place), try base.presentRow(place) != candidate?.values {
            note(.other(table: table.name.text, key: key))
        }
    }

    private mutating func add(_ place: RowPlace, _ row: BaseRow, _ table: BaseTable) {
        var bytes: [UInt8] = []
        bytes.append(text: table.name.text)
        bytes += place.key.cells.bytes
        let cells = row.cells.compactMap { n, cell in table.columns[n].map { (id: $0.id, value: cell.value) } }
        for cell in cells.sorted(by: { $0.id < $1.id }) {
            bytes.append(text: cell.id.name.text)
            bytes.append(varint: UInt64(cell.id.reuse))
            bytes.append(cell: cell.value)
        }
        let sums = row.sums.keys.compactMap { table.columns[$0] }.sorted { $0.id < $1.id }
        for column in sums {
            bytes.append(text: column.id.name.text)
            bytes.append(varint: UInt64(column.id.reuse))
            bytes.append(integerCell: row.total(of: column.n))
        }
        bytes.withUnsafeBytes { content.update($0) }
    }

    // MARK: The program's tables

    mutating func readTables() throws {
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            guard let local = table.local else { continue }
            var last: RowKey?
            while true {
                let rows = try work.rows(of: local, after: last, limit: Self.batch)
                guard let end = rows.last else { break }
                for row in rows {
                    let key = local.key(of: row)
                    let place = RowPlace(table: table.n, key: key)
                    if try !key.values.contains(where: \.isNull) && work.isStored(place) { continue }
                    note(.unrecorded(table: table.name.text, key: key.values.map(\.databaseValue)))
                }
                last = local.key(of: end)
            }
        }
    }
}
