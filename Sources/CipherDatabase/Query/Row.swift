import Foundation

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
    // Unchecked, as those below: only a row that one thread uses changes.
    @exclusivity(unchecked) @usableFromInline private(set) var address: UnsafeRawPointer
    /// The values that the row shows. It keeps the values in memory.
    @exclusivity(unchecked) @usableFromInline private(set) var source: RowSource
    @usableFromInline let columnCount: Int32
    /// The column that is likely read next by name, in rows that show a statement: programs read the columns of every
    /// row in one order.
    // Unchecked: such a row is used by the one thread of its access, and the runtime's check costs as much as the
    // column.
    @exclusivity(unchecked) @usableFromInline var likelyColumn: UInt16 = 0
    /// The column of the statement that is this row's first: 0 except for rows of an adapter. -1 for kept rows, and -2
    /// for a row that shows one kept row after another, to one thread.
    @exclusivity(unchecked) @usableFromInline private(set) var firstColumn: Int16

    /// A row that shows the current row of a statement.
    convenience init(showing run: StatementRun) {
        self.init(UnsafeRawPointer(run.steps.handle.pointer), source: RunningSource(run), firstColumn: 0)
    }

    /// A row that shows the current row of a statement, for a fetch that has the statement.
    convenience init(showing statement: Statement) {
        self.init(UnsafeRawPointer(statement.handle.pointer), source: RunningSource(statement), firstColumn: 0)
    }

    /// Makes a row that shows a statement keep it at its row.
    func takeOver(_ steps: StatementSteps) {
        (unadapted.source as? RunningSource)?.takeOver(steps)
    }

    /// Stops showing a statement: the row has its own copy of the values from now on.
    ///
    /// Containers and decoders that a program has kept read their columns from the row, and never from its statement.
    func settle() {
        // Not `copy()`, which makes another object: a program refers to this one.
        guard let statement, source is RunningSource else { return }
        let kept = Row.copy(of: statement, columns: columns)
        address = kept.address
        source = kept.source
        firstColumn = -1
    }

    /// Fills a row of a block that is its own with the current row of a statement.
    ///
    /// - Returns: Whether there was space for it; otherwise the row has lost its values.
    func refill(from statement: StatementHandle, _ columns: RowColumns) -> Bool {
        guard source.columns === columns, let block = source as? RowBlock else { return false }
        return block.refill(from: statement)
    }

    /// A row that shows adjacent columns of a row.
    convenience init(
        showing base: Row, from firstColumn: Int, layout: RowLayout, prefetched: OwnPrefetchedRows? = nil
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

    /// A row that shows one kept row after another.
    convenience init(showing rows: LentRowSource, at values: UnsafeRawPointer) {
        self.init(values, source: rows, firstColumn: -2)
    }

    /// Shows the values of another kept row.
    func show(_ values: UnsafeRawPointer) {
        address = values
        likelyColumn = 0
    }

    /// Stops showing other rows, because somebody has kept this one.
    ///
    /// - Parameter block: The block of its values, which it keeps in memory from now on.
    func settle(in block: RowBlock) {
        source = block
        firstColumn = -1
    }

    /// A row that shows one kept row after another, each with what was prefetched for it.
    convenience init(showing source: AdaptedSource) {
        self.init(source.base.address, source: source, firstColumn: -2)
    }

    /// Stops showing other rows. Its source, which nobody else has, keeps its values in memory.
    func settleAlone() { firstColumn = -1 }

    /// Whether the row shows one kept row after another, to one thread.
    var isLent: Bool { firstColumn == -2 }

    /// A row of values in another order than in the statement.
    convenience init(_ reordered: RowBlock, base: Row, layout: RowLayout, prefetched: OwnPrefetchedRows? = nil) {
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
    public convenience init() { self.init(values: [], columns: RowColumns(names: [], isFetched: false)) }

    /// A row of the given columns, sorted by name.
    public convenience init(_ values: [String: (any DatabaseValueConvertible)?]) {
        let sorted = values.sorted { $0.key < $1.key }
        self.init(
            values: sorted.map { $0.value?.databaseValue ?? .null },
            columns: RowColumns(names: sorted.map(\.key), isFetched: false))
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

    /// The statement that the row shows, for errors.
    var running: RunningSource? { unadapted.source as? RunningSource }

    /// Whether a statement returned the row, and not the program made it.
    package var isFetched: Bool { unadapted.columns.isFetched }

    // MARK: Names

    /// The names of the columns, from left to right.
    public var columnNames: [String] { columns.names }

    @inlinable
    var columns: RowColumns { source.columns }

    /// Whether there is a column of this name, ignoring case.
    public func hasColumn(_ name: String) -> Bool { columns.index(of: name) != nil }

    /// The leftmost column of a name, ignoring case; nil when there is none.
    @inlinable @inline(__always)
    package func index(of name: String) -> Int? {
        let names = source.columns.likelyNames
        let likely = Int(likelyColumn)
        if likely < names.count, names[likely] == name {
            // After the last column comes the first one of the next row. Kept rows are read by several threads.
            if firstColumn != -1 {
                likelyColumn = likely &+ 1 == names.count ? 0 : UInt16(truncatingIfNeeded: likely &+ 1)
            }
            return likely
        }
        return otherIndex(of: name)
    }

    @usableFromInline @inline(never)
    func otherIndex(of name: String) -> Int? {
        let index = columns.index(of: name)
        if firstColumn != -1 { likelyColumn = UInt16(truncatingIfNeeded: index ?? -1) &+ 1 }
        return index
    }

    // MARK: Stored values

    /// The stored value of a column, counted from 0.
    public func databaseValue(at index: Int) -> DatabaseValue {
        requireColumn(index)
        if let statement { return DatabaseValue(statement: statement, index: statementColumn(index)) }
        return StoredValue(in: address, at: index).value
    }

    /// The bytes of a text that is not UTF-8, of the present row of a cursor; nil for every other value. Its
    /// ``databaseValue(at:)`` has U+FFFD in the place of what cannot be decoded.
    package func undecodableText(at index: Int) -> Data? {
        requireColumn(index)
        guard let statement else { return nil }
        let column = statementColumn(index)
        guard statement.storageClass(at: column) == .text else { return nil }
        // Makes SQLite convert a text of another encoding.
        guard let text = statement.stringOrNil(at: column), text.unicodeScalars.contains("\u{fffd}") else { return nil }
        let bytes = statement.bytes(at: column)
        return String(validating: bytes, as: UTF8.self) == nil ? Data(bytes) : nil
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

extension Row: ExpressibleByDictionaryLiteral {
    /// A row of the given columns, in this order.
    public convenience init(dictionaryLiteral elements: (String, (any DatabaseValueConvertible)?)...) {
        self.init(
            values: elements.map { $0.1?.databaseValue ?? .null },
            columns: RowColumns(names: elements.map(\.0), isFetched: false))
    }
}

extension Row: Equatable {
    /// Whether names and values are the same, in the same order, and those of the scopes too.
    public static func == (left: Row, right: Row) -> Bool {
        if left === right { return true }
        guard left.columnNames == right.columnNames && left.databaseValues == right.databaseValues else { return false }
        if left.adaptation == nil && right.adaptation == nil { return true }
        switch (left.adaptation?.prefetched, right.adaptation?.prefetched) {
        case (nil, nil): break
        case (let left?, let right?): if !left.isSame(as: right) { return false }
        default: return false
        }
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

    /// The same; for a row that an adapter made also the row that it was made from, its scopes at every depth, and how
    /// many rows were prefetched, each on its own line.
    public var debugDescription: String {
        let parts = parts(margin: "  ")
        let isAdapted = adaptation.map { $0.base.columnNames != columnNames || !$0.layout.scopes.isEmpty }
        let base = isAdapted == true ? "\n  unadapted: \(unadapted)" : ""
        return parts.isEmpty && base.isEmpty ? description : "▿ \(description)\(base)\(parts)"
    }

    private func parts(margin: String) -> String {
        let scopes = scopes.sorted { $0.name < $1.name }.map { scope in
            "\n\(margin)- \(scope.name): \(scope.row)" + scope.row.parts(margin: margin + "  ")
        }
        let prefetched = prefetchedRows.keys.sorted().map { key in
            let count = prefetchedRows.group(key)?.count ?? 0
            return "\n\(margin)+ \(key): \(count) \(count > 1 ? "rows" : "row")"
        }
        return (scopes + prefetched).joined()
    }
}

/// The column names of a result, shared by all of its rows.
@usableFromInline
final class RowColumns: Sendable {
    @usableFromInline let names: [String]
    /// The names, where a name stands for the one column that has it; otherwise empty.
    @usableFromInline let likelyNames: [String]
    @usableFromInline let count: Int
    /// The types that the columns of tables were declared with, for errors; empty for rows of no statement.
    let declaredTypes: [String?]
    // The leftmost column of a name wins. Made at once: rows of one statement may be used by several threads.
    private let indexes: [String: Int]
    /// Whether two names are equal, or differ only in case.
    @usableFromInline let hasTwins: Bool
    /// Whether the columns are those of a statement.
    let isFetched: Bool
    /// The decoders of rows that show this statement.
    // Safe because: it is touched only through such rows, by the one thread of the statement's access.
    @exclusivity(unchecked) nonisolated(unsafe) var decoders = KeptDecoders()
    /// The decoders for all other rows with these columns.
    let idleDecoders = IdleDecoders()

    init(names: [String], declaredTypes: [String?] = [], isFetched: Bool = true) {
        self.isFetched = isFetched
        self.names = names
        self.declaredTypes = declaredTypes
        count = names.count
        indexes = Dictionary(
            names.enumerated().map { ($0.element.lowercased(), $0.offset) }, uniquingKeysWith: { first, _ in first })
        hasTwins = indexes.count < names.count
        likelyNames = hasTwins ? [] : names
    }

    /// The leftmost column of a name, whatever its case.
    @usableFromInline
    func index(of name: String) -> Int? {
        // Code mostly uses the spelling of the query: no lower-casing then.
        if !hasTwins, let index = names.firstIndex(of: name) { return index }
        return indexes[name.lowercased()]
    }
}

// Bytes of a row without copying them.

extension Row {
    /// Calls `body` with the bytes of a column, counted from 0, without copying them; nil for NULL.
    ///
    /// The bytes are valid only inside `body`. Traps when the column holds a number.
    public func withUnsafeData<Result>(atIndex index: Int, _ body: (Data?) throws -> Result) rethrows -> Result {
        try body(dataNoCopy(atIndex: index))
    }

    /// Calls `body` with the bytes of a column without copying them; nil for NULL and where there is no such column.
    ///
    /// The bytes are valid only inside `body`. Traps when the column holds a number.
    public func withUnsafeData<Result>(named name: String, _ body: (Data?) throws -> Result) rethrows -> Result {
        try body(dataNoCopy(named: name))
    }

    /// The bytes of a column, counted from 0, without copying them; nil for NULL.
    ///
    /// They are valid until the cursor of the row advances: prefer ``withUnsafeData(atIndex:_:)``. Traps when the
    /// column holds a number.
    public func dataNoCopy(atIndex index: Int) -> Data? {
        requireColumn(index)
        guard let statement else { return slowValue(at: index) }
        let column = statementColumn(index)
        switch statement.storageClass(at: column) {
        case .null: return nil
        case .integer, .real: return slowValue(at: index)
        case .text, .blob: break
        }
        let bytes = statement.bytes(at: column)
        guard let start = bytes.baseAddress else { return Data() }
        return Data(
            bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count, deallocator: .none)
    }

    /// The bytes of a column without copying them; nil for NULL and where there is no such column.
    public func dataNoCopy(named name: String) -> Data? { columns.index(of: name).flatMap { dataNoCopy(atIndex: $0) } }
}

// The rows within a row that adapters define.

extension Row {
    /// The scopes of the row, which adapters such as ``ScopeAdapter`` define.
    public var scopes: ScopesView {
        let adaptation = adaptation
        return ScopesView(
            base: adaptation?.base, layouts: adaptation?.layout.scopes ?? [:],
            prefetched: adaptation?.prefetched)
    }

    /// The scopes of the row, their scopes, and so on.
    public var scopesTree: ScopesTreeView { ScopesTreeView(scopes: scopes) }

    /// The row without its scopes.
    public var unscoped: Row {
        guard let adaptation, !adaptation.layout.scopes.isEmpty || adaptation.prefetched != nil else { return self }
        return Row.adapting(adaptation.base, to: adaptation.layout.withoutScopes)
    }

    /// The row as the statement returned it, with all of its columns.
    public var unadapted: Row { adaptation?.base ?? self }

    /// The scopes of a row, by name.
    public struct ScopesView: Collection {
        fileprivate let base: Row?
        fileprivate let layouts: [String: RowLayout]
        fileprivate let prefetched: OwnPrefetchedRows?

        public typealias Index = Dictionary<String, RowLayout>.Index
        public typealias Element = (name: String, row: Row)

        /// The names of the scopes.
        public var names: Dictionary<String, RowLayout>.Keys { layouts.keys }

        /// The row of a scope; nil when there is no scope of this name.
        public subscript(name: String) -> Row? {
            guard let base, let layout = layouts[name] else { return nil }
            return .adapting(base, to: layout, prefetched: prefetched?.scope(name))
        }

        /// The scopes of the scopes that have any: no row is made for them.
        fileprivate var deeperScopes: [ScopesView] {
            layouts.compactMap { name, layout in
                layout.scopes.isEmpty
                    ? nil
                    : ScopesView(base: base, layouts: layout.scopes, prefetched: prefetched?.scope(name))
            }
        }

        public var startIndex: Index { layouts.startIndex }
        public var endIndex: Index { layouts.endIndex }
        public func index(after index: Index) -> Index { layouts.index(after: index) }
        public subscript(position: Index) -> Element {
            let (name, layout) = layouts[position]
            return (name, base.map { .adapting($0, to: layout, prefetched: prefetched?.scope(name)) } ?? Row())
        }
    }

    /// The scopes of a row at every depth, by name.
    public struct ScopesTreeView {
        fileprivate let scopes: ScopesView

        /// The names of the scopes at every depth.
        public var names: Set<String> {
            scopes.reduce(into: Set(scopes.names)) { $0.formUnion($1.row.scopesTree.names) }
        }

        /// The row of the nearest scope of a name; nil when there is none.
        public subscript(name: String) -> Row? {
            if scopes.isEmpty { return nil }
            var level = [scopes]
            while !level.isEmpty {
                for scopes in level { if let row = scopes[name] { return row } }
                level = level.flatMap(\.deeperScopes)
            }
            return nil
        }
    }
}

// Reading values with errors where subscripts trap, and the slow paths of subscripts.

extension Row {
    // MARK: Throwing

    /// The value of a column, counted from 0.
    ///
    /// - Throws: ``RowDecodingError`` for NULL, for values that do not fit, and where there is no such column.
    public func decode<Value: DatabaseValueConvertible>(_ type: Value.Type = Value.self, atIndex index: Int) throws
        -> Value
    {
        guard indices(contain: index) else { throw missingColumn("\(index)", wanted: Value.self) }
        if let value = Value.fromDatabaseValue(databaseValue(at: index)) { return value }
        throw decodingError(column: "", at: index, wanted: Value.self)
    }

    /// The value of a column, counted from 0; nil for NULL.
    ///
    /// - Throws: ``RowDecodingError`` for values that do not fit, and where there is no such column.
    public func decodeIfPresent<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, atIndex index: Int
    ) throws -> Value? {
        guard indices(contain: index) else { throw missingColumn("\(index)", wanted: Value.self) }
        return hasNull(atIndex: index) ? Value.fromDatabaseValue(.null) : try decode(Value.self, atIndex: index)
    }

    /// The value of the leftmost column of a name, ignoring case.
    ///
    /// - Throws: ``RowDecodingError`` for NULL, for values that do not fit, and where there is no such column.
    public func decode<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn name: String
    ) throws -> Value {
        if let index = columns.index(of: name) { return try decode(Value.self, atIndex: index) }
        guard let value = Value.fromMissingColumn() else { throw missingColumn(name, wanted: Value.self) }
        return value
    }

    /// The value of the leftmost column of a name, ignoring case; nil for NULL and where there is no such column.
    ///
    /// - Throws: ``RowDecodingError`` for values that do not fit.
    public func decodeIfPresent<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn name: String
    ) throws -> Value? {
        guard let index = columns.index(of: name) else { return Value.fromMissingColumn() }
        return try decodeIfPresent(Value.self, atIndex: index)
    }

    private func indices(contain index: Int) -> Bool { index >= 0 && index < count }

    private func missingColumn(_ name: String, wanted: Any.Type) -> RowDecodingError {
        decodingError(column: name, at: nil, wanted: wanted)
    }

    // MARK: The first of several columns

    /// The first value that is not NULL among columns; columns that the row does not have count as NULL.
    /// Traps when that value does not fit.
    public func coalesce<Value: DatabaseValueConvertible>(_ names: some Collection<String>) -> Value? {
        for name in names {
            if let index = columns.index(of: name), !hasNull(atIndex: index) {
                let value: Value = slowValue(at: index)
                return value
            }
        }
        return nil
    }

    // MARK: The slow paths of subscripts

    @usableFromInline
    func slowValue<Value: DatabaseValueConvertible>(at index: Int) -> Value {
        do {
            return try decode(Value.self, atIndex: index)
        } catch {
            ProgrammerError.trap("\(error)")
        }
    }

    @usableFromInline
    func missingValue<Value: DatabaseValueConvertible>(_ name: String) -> Value {
        guard let value = Value.fromMissingColumn() else {
            let names = columnNames.joined(separator: ", ")
            ProgrammerError.trap("row has no column named \(name): its columns are \(names)")
        }
        return value
    }
}
