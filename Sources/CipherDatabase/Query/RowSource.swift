// The sources of rows. A row is one small object with one reference to its source, because a result has many of them.

/// The source of a row: its columns, and the owner of its values.
@usableFromInline
class RowSource {
    @usableFromInline final let columns: RowColumns

    init(columns: RowColumns) { self.columns = columns }

    /// What the record layer knows of these columns; asked for only by rows that show a statement, on the one thread of
    /// its access.
    var decodingPlan: AnyObject? {
        get { nil }
        set {}
    }
}

/// The current row of a statement.
final class RunningSource: RowSource {
    /// Keeps the statement at its row: a row may outlive its cursor.
    let run: StatementRun

    init(_ run: StatementRun) {
        self.run = run
        super.init(columns: run.steps.statement.columns)
    }

    /// Kept with the statement, for its next run.
    override var decodingPlan: AnyObject? {
        get { columns.decodingPlan }
        set { columns.decodingPlan = newValue }
    }
}

/// A row as an adapter shows it.
final class AdaptedSource: RowSource {
    /// The row as the statement returned it, which keeps its values in memory.
    let base: Row
    let layout: RowLayout
    /// Kept for the rows of one cursor: an adapter may give its columns to several statements.
    @exclusivity(unchecked) private var ownDecodingPlan: AnyObject?
    override var decodingPlan: AnyObject? {
        get { ownDecodingPlan }
        set { ownDecodingPlan = newValue }
    }
    /// The values in the order of the adapter, where it differs from the order of the statement.
    let reordered: RowBlock?

    /// The rows of other tables that were fetched for this one, and for its scopes.
    let prefetched: OwnPrefetchedRows?

    init(base: Row, layout: RowLayout, reordered: RowBlock? = nil, prefetched: OwnPrefetchedRows? = nil) {
        self.prefetched = prefetched
        self.base = base
        self.layout = layout
        self.reordered = reordered
        super.init(columns: layout.rowColumns)
    }
}
