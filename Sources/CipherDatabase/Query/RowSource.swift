import Synchronization

// The sources of rows. A row is one small object with one reference to its source, because a result has many of them.

/// The source of a row: its columns, and the owner of its values.
@usableFromInline
class RowSource {
    @usableFromInline final let columns: RowColumns

    init(columns: RowColumns) { self.columns = columns }

    // The decoders that stay with rows that show a statement, on the one thread of its access.

    /// The decoder of a record type; nil when there is none yet.
    func decoder(of record: ObjectIdentifier) -> KeptDecoder? { nil }
    func keep(_ decoder: KeptDecoder) {}
}

/// The current row of a statement.
final class RunningSource: RowSource {
    /// Keeps the statement at its row: a row may outlive its cursor. nil while one row is read without a cursor.
    private(set) var run: StatementRun?
    // Safe because: without a run, the fetch that reads the row has the statement.
    unowned(unsafe) let statement: Statement

    init(_ run: StatementRun) {
        self.run = run
        statement = run.steps.statement
        super.init(columns: run.steps.statement.columns)
    }

    init(_ statement: Statement) {
        self.statement = statement
        super.init(columns: statement.columns)
    }

    func takeOver(_ steps: StatementSteps) { run = StatementRun(steps) }

    /// The position of the current row in its result.
    var rowIndex: Int { run.map { $0.steps.rowCount - 1 } ?? 0 }

    // Kept with the statement, for its next run.
    override func decoder(of record: ObjectIdentifier) -> KeptDecoder? { columns.decoders.decoder(of: record) }
    override func keep(_ decoder: KeptDecoder) { columns.decoders.keep(decoder) }
}

/// A row as an adapter shows it.
final class AdaptedSource: RowSource {
    /// The row as the statement returned it, which keeps its values in memory.
    // Unchecked, as the others: only what is lent to one thread changes.
    @exclusivity(unchecked) private(set) var base: Row
    let layout: RowLayout
    /// Kept for the rows of one cursor: an adapter may give its columns to several statements.
    @exclusivity(unchecked) private var decoders = KeptDecoders()
    override func decoder(of record: ObjectIdentifier) -> KeptDecoder? { decoders.decoder(of: record) }
    override func keep(_ decoder: KeptDecoder) { decoders.keep(decoder) }
    /// The values in the order of the adapter, where it differs from the order of the statement.
    let reordered: RowBlock?

    /// The rows of other tables that were fetched for this one, and for its scopes.
    @exclusivity(unchecked) private(set) var prefetched: OwnPrefetchedRows?
    /// The row that showed prefetched rows one after another, for the next row that this source is lent to.
    @exclusivity(unchecked) var lentRow: Row?

    init(base: Row, layout: RowLayout, reordered: RowBlock? = nil, prefetched: OwnPrefetchedRows? = nil) {
        self.prefetched = prefetched
        self.base = base
        self.layout = layout
        self.reordered = reordered
        super.init(columns: layout.rowColumns)
    }

    deinit { decoders.forEach(columns.idleDecoders.add) }

    /// Whether something else refers to the row that the statement returned.
    var hasSharedBase: Bool { !isKnownUniquelyReferenced(&base) }

    /// Shows another kept row, with what was fetched for it.
    ///
    /// - Parameter index: The position of the row.
    func show(_ values: UnsafeRawPointer, at index: Int) {
        base.show(values)
        prefetched?.index = index
    }
}

/// The rows of a ``KeptRows`` that one row shows, one after another.
final class LentRowSource: RowSource {
    /// Keeps their values in memory.
    let rows: KeptRows
    /// Kept for these rows: others with the same columns may be in use by other threads.
    @exclusivity(unchecked) private var decoders = KeptDecoders()
    override func decoder(of record: ObjectIdentifier) -> KeptDecoder? { decoders.decoder(of: record) }
    override func keep(_ decoder: KeptDecoder) { decoders.keep(decoder) }

    init(_ rows: KeptRows) {
        self.rows = rows
        super.init(columns: rows.columns)
    }

    deinit { decoders.forEach(columns.idleDecoders.add) }
}

// MARK: - Decoders of the record layer

/// The decoder of the record layer for one record type and rows of one layout.
///
/// One thread uses it at a time.
package struct KeptDecoder: Sendable {
    /// The record type.
    let record: ObjectIdentifier
    let content: any AnyObject & Sendable

    package init(record: ObjectIdentifier, content: any AnyObject & Sendable) {
        self.record = record
        self.content = content
    }
}

/// The decoders that stay with a statement, or with the rows of one cursor.
struct KeptDecoders {
    // Few rows are read as more than one type of record: no memory is allocated for the first one.
    private var first: KeptDecoder?
    private var others: [KeptDecoder] = []

    @inline(__always)
    func decoder(of record: ObjectIdentifier) -> KeptDecoder? {
        guard let first else { return nil }
        return first.record == record ? first : others.first { $0.record == record }
    }

    mutating func keep(_ decoder: KeptDecoder) {
        if first == nil { first = decoder } else { others.append(decoder) }
    }

    func forEach(_ body: (KeptDecoder) -> Void) {
        if let first { body(first) }
        others.forEach(body)
    }
}

/// The decoders of one layout that nobody uses. Kept rows share a layout, and several threads may use them: each thread
/// takes a decoder, and returns it after the record.
final class IdleDecoders: Sendable {
    private let decoders = Mutex<[KeptDecoder]>([])

    func take(_ record: ObjectIdentifier) -> KeptDecoder? {
        decoders.withLock { decoders in decoders.lastIndex { $0.record == record }.map { decoders.remove(at: $0) } }
    }

    func add(_ decoder: KeptDecoder) {
        decoders.withLock { if $0.count < DatabaseLimits.idleDecoders { $0.append(decoder) } }
    }
}

extension Row {
    /// Whether decoders stay with this row: not with kept rows, which several threads may read.
    package var keepsDecoders: Bool { firstColumn != -1 }

    /// The decoder of a record type that stays with this row; nil when there is none yet.
    package func decoder(of record: ObjectIdentifier) -> (any AnyObject & Sendable)? {
        keepsDecoders ? source.decoder(of: record)?.content : nil
    }

    /// Keeps a decoder with this row.
    package func keep(_ decoder: KeptDecoder) { source.keep(decoder) }

    /// Takes a decoder of a record type for the columns of this row; nil when there is none that is not in use.
    package func takeIdleDecoder(of record: ObjectIdentifier) -> (any AnyObject & Sendable)? {
        columns.idleDecoders.take(record)?.content
    }

    /// Returns a decoder that is no longer in use.
    package func addIdleDecoder(_ decoder: KeptDecoder) { columns.idleDecoders.add(decoder) }
}
