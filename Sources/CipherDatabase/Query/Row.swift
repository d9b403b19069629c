/// One row of a statement's result.
///
/// A row from a cursor shows the statement's current row and changes with it; ``copy()`` keeps its values. It is valid
/// until the cursor advances or ends. Rows of `fetchAll` and `fetchOne` are copies already.
///
/// Reading a NULL, or a value of another type, into a type that cannot hold it is an error of the program and traps
/// with the name of the column; ``decode(_:atIndex:)`` throws instead, and optional types accept NULL.
///
/// A text whose bytes are not UTF-8 is read with the replacement character U+FFFD in their places. `Data` read from a
/// row of a cursor contains a text's bytes as they are stored.
public final class Row {
    // An object of 40 bytes: memory is the main cost of the rows of a large result.

    /// The statement whose current row is shown, or the address of the values of a kept row.
    @usableFromInline let address: UnsafeRawPointer
    /// What the row shows. It keeps the values in memory.
    @usableFromInline let source: RowSource
    @usableFromInline let columnCount: Int32
    /// The column that is likely read next by name, in rows that show a statement: programs read the columns of every
    /// row in one order.
    // Unchecked: such a row is used by the one thread of its access, and the runtime's check costs as much as the
    // column.
    @exclusivity(unchecked) @usableFromInline var likelyColumn: UInt16 = 0
    /// The column of the statement that is this row's first: 0 except for rows of an adapter. -1 for kept rows.
    @usableFromInline let firstColumn: Int16

    /// A row that shows the current row of a statement.
    convenience init(showing run: StatementRun) {
        self.init(UnsafeRawPointer(run.steps.handle.pointer), source: RunningSource(run), firstColumn: 0)
    }

    /// A row that shows adjacent columns of a row.
    convenience init(
        showing base: Row, from firstColumn: Int, layout: RowLayout, prefetched: PrefetchedRows? = nil
    ) {
        let source = AdaptedSource(base: base, layout: layout, prefetched: prefetched)
        if base.statement == nil {
            self.init(StoredValue(in: base.address, at: firstColumn).address, source: source, firstColumn: -1)
        } else {
            self.init(base.address, source: source, firstColumn: Int16(truncatingIfNeeded: firstColumn))
        }
    }

    /// A row of values in a block.
    @inline(__always)
    convenience init(_ values: UnsafeRawPointer, of block: RowBlock) {
        self.init(values, source: block, firstColumn: -1)
    }

    /// A row of values in another order than in the statement.
    convenience init(_ reordered: RowBlock, base: Row, layout: RowLayout, prefetched: PrefetchedRows? = nil) {
        self.init(
            reordered.firstRow,
            source: AdaptedSource(base: base, layout: layout, reordered: reordered, prefetched: prefetched),
            firstColumn: -1)
    }

    /// A row with its own values.
    convenience init(values: [DatabaseValue], columns: RowColumns) {
        let block = RowBlock(values, columns: columns)
        self.init(block.firstRow, of: block)
    }

    // SQLite has at most 32,767 columns. https://www.sqlite.org/limits.html
    @inline(__always)
    private init(_ address: UnsafeRawPointer, source: RowSource, firstColumn: Int16) {
        self.address = address
        self.source = source
        columnCount = Int32(truncatingIfNeeded: source.columns.count)
        self.firstColumn = firstColumn
    }

    /// How many columns the row has.
    @inlinable
    public var count: Int { Int(columnCount) }

    /// The statement whose current row is shown; nil for a kept row.
    @inlinable
    package var statement: StatementHandle? { firstColumn < 0 ? nil : StatementHandle(SQLiteStatement(address)) }

    /// The column of the statement for a column of this row.
    @inlinable
    package func statementColumn(_ index: Int) -> CInt { CInt(truncatingIfNeeded: index) &+ CInt(firstColumn) }

    /// A row without columns.
    public convenience init() { self.init(values: [], columns: RowColumns(names: [])) }

    /// A row of the given columns, sorted by name.
    public convenience init(_ values: [String: (any DatabaseValueConvertible)?]) {
        let sorted = values.sorted { $0.key < $1.key }
        self.init(
            values: sorted.map { $0.value?.databaseValue ?? .null }, columns: RowColumns(names: sorted.map(\.key)))
    }

    /// A row of the given columns, sorted by name; nil when a key is not a text, or a value not a database value.
    public convenience init?(_ values: [AnyHashable: Any]) {
        var named: [String: (any DatabaseValueConvertible)?] = [:]
        for (key, value) in values {
            guard let name = key.base as? String, let value = DatabaseValue(value: value) else { return nil }
            named[name] = .some(value)
        }
        self.init(named)
    }

    /// The row with its own values, which stay when the statement advances.
    public func copy() -> Row {
        guard let statement else { return self }
        if let adaptation { return Row.adapting(adaptation.base.copy(), to: adaptation.layout) }
        return Row.copy(of: statement, columns: columns)
    }

    /// A row with its own copy of the values of a statement's current row.
    static func copy(of statement: StatementHandle, columns: RowColumns) -> Row {
        var keeper = RowKeeper(columns: columns)
        return keeper.keep(statement)
    }

    /// The source of a row that an adapter made; nil for a plain row.
    var adaptation: AdaptedSource? { source as? AdaptedSource }

    /// The statement's run of a row that shows one.
    var run: StatementRun? { (unadapted.source as? RunningSource)?.run }

    // MARK: Names

    /// The names of the columns, from left to right.
    public var columnNames: [String] { columns.names }

    @inlinable
    var columns: RowColumns { source.columns }

    /// Whether there is a column of this name, ignoring case.
    public func hasColumn(_ name: String) -> Bool { columns.index(of: name) != nil }

    /// The leftmost column of a name, ignoring case; nil when there is none.
    @inlinable
    package func index(of name: String) -> Int? {
        let columns = columns
        guard statement != nil else { return columns.index(of: name) }
        let likely = Int(likelyColumn)
        if likely < count, !columns.hasTwins, columns.names[likely] == name {
            likelyColumn &+= 1
            return likely
        }
        let index = columns.index(of: name)
        likelyColumn = UInt16(truncatingIfNeeded: index ?? -1) &+ 1
        return index
    }

    // MARK: Stored values

    /// The stored value of a column, counted from 0.
    public func databaseValue(at index: Int) -> DatabaseValue {
        requireColumn(index)
        if let statement { return DatabaseValue(statement: statement, index: statementColumn(index)) }
        return StoredValue(in: address, at: index).value
    }

    /// The stored values, from left to right.
    public var databaseValues: [DatabaseValue] { (0..<count).map { databaseValue(at: $0) } }

    @inlinable
    func requireColumn(_ index: Int) {
        if index < 0 || index >= count { trapOnColumn(at: index) }
    }

    @usableFromInline
    func trapOnColumn(at index: Int) -> Never {
        ProgrammerError.trap("row has no column at index \(index): it has \(count) columns")
    }

    /// Whether the value of a column is NULL.
    public func hasNull(atIndex index: Int) -> Bool {
        requireColumn(index)
        if let statement { return statement.isNull(at: statementColumn(index)) }
        return StoredValue(in: address, at: index).kind == .null
    }

    /// Whether a column of the row, or of one of its scopes, holds anything but NULL.
    public var containsNonNullValue: Bool {
        if (0..<count).contains(where: { !hasNull(atIndex: $0) }) { return true }
        return scopes.contains { $0.row.containsNonNullValue }
    }
}

extension Row {
    /// What the record layer knows of the columns of this row's statement; always nil for kept rows, which several
    /// threads may read.
    package var decodingPlan: AnyObject? {
        get { firstColumn < 0 ? nil : source.decodingPlan }
        set { if firstColumn >= 0 { source.decodingPlan = newValue } }
    }
}

extension Row: ExpressibleByDictionaryLiteral {
    /// A row of the given columns, in this order.
    public convenience init(dictionaryLiteral elements: (String, (any DatabaseValueConvertible)?)...) {
        self.init(
            values: elements.map { $0.1?.databaseValue ?? .null }, columns: RowColumns(names: elements.map(\.0)))
    }
}

extension Row: Equatable {
    /// Whether names and values are the same, in the same order, and those of the scopes too.
    public static func == (left: Row, right: Row) -> Bool {
        if left === right { return true }
        guard left.columnNames == right.columnNames && left.databaseValues == right.databaseValues else { return false }
        if left.adaptation == nil && right.adaptation == nil { return true }
        guard left.adaptation?.prefetched?.rows == right.adaptation?.prefetched?.rows else { return false }
        let names = Set(left.scopes.names)
        return names == Set(right.scopes.names) && names.allSatisfy { left.scopes[$0] == right.scopes[$0] }
    }
}

extension Row: Hashable {
    public func hash(into hasher: inout Hasher) {
        hasher.combine(columnNames)
        hasher.combine(databaseValues)
    }
}

extension Row: CustomStringConvertible, CustomDebugStringConvertible {
    /// Names and values, as in `[id:1 name:"Ann"]`. Values are data: keep it out of log files.
    public var description: String {
        let pairs = zip(columnNames, databaseValues).map { name, value in "\(name):\(value.summary)" }
        return "[" + pairs.joined(separator: " ") + "]"
    }

    /// The same; for a row that an adapter made also the row that it was made from, and its scopes at every depth, each
    /// on its own line.
    public var debugDescription: String {
        let base = unadapted
        guard self != base else { return description }
        let scopes = scopes.sorted { $0.name < $1.name }.map { "\n  - " + $0.row.outline(named: $0.name, margin: "  ") }
        return "▿ \(description)\n  unadapted: \(base)" + scopes.joined()
    }

    private func outline(named name: String, margin: String) -> String {
        let scopes = scopes.sorted { $0.name < $1.name }.map {
            "\n\(margin)  - " + $0.row.outline(named: $0.name, margin: margin + "  ")
        }
        return "\(name): \(description)" + scopes.joined()
    }
}

extension Row: RandomAccessCollection {
    public struct Index: Comparable, Sendable {
        let position: Int
        public static func < (left: Index, right: Index) -> Bool { left.position < right.position }
    }
    public var startIndex: Index { Index(position: 0) }
    public var endIndex: Index { Index(position: count) }
    public func index(after index: Index) -> Index { Index(position: index.position + 1) }
    public func index(before index: Index) -> Index { Index(position: index.position - 1) }
    public func distance(from start: Index, to end: Index) -> Int { end.position - start.position }
    public func index(_ index: Index, offsetBy distance: Int) -> Index { Index(position: index.position + distance) }

    /// Name and stored value of a column.
    public subscript(position: Index) -> (String, DatabaseValue) {
        (columnNames[position.position], databaseValue(at: position.position))
    }
}

/// The column names of a result, shared by all of its rows.
@usableFromInline
final class RowColumns: Sendable {
    @usableFromInline let names: [String]
    @usableFromInline let count: Int
    // The leftmost column of a name wins. Made at once: rows of one statement may be read on several threads.
    private let indexes: [String: Int]
    /// Whether two names are equal, or differ only in case.
    @usableFromInline let hasTwins: Bool
    /// What the record layer knows of these columns.
    // Safe because: it is touched only through rows that show this statement, by the one thread of its access.
    @exclusivity(unchecked) nonisolated(unsafe) var decodingPlan: AnyObject?

    init(names: [String]) {
        self.names = names
        count = names.count
        indexes = Dictionary(
            names.enumerated().map { ($0.element.lowercased(), $0.offset) }, uniquingKeysWith: { first, _ in first })
        hasTwins = indexes.count < names.count
    }

    /// The leftmost column of a name, whatever its case.
    @usableFromInline
    func index(of name: String) -> Int? {
        // Code mostly uses the spelling of the query: no lower-casing then.
        if !hasTwins, let index = names.firstIndex(of: name) { return index }
        return indexes[name.lowercased()]
    }
}
