/// One row of a statement's result.
///
/// A row from a cursor shows the statement's current row and changes with it; ``copy()`` keeps its values. It is good
/// until the cursor goes on or ends. Rows of `fetchAll` and `fetchOne` are copies already.
///
/// Reading a NULL, or a value of another type, into a type that cannot hold it is a mistake of the program and traps
/// with the name of the column; ``decode(_:atIndex:)`` throws instead, and optional types take NULL.
public final class Row {
    @usableFromInline let statement: StatementHandle?
    // A row may live longer than its cursor; the pointer above must stay good.
    private let owner: Statement?
    @usableFromInline let values: [DatabaseValue]
    @usableFromInline let columns: RowColumns
    /// How many columns the row has.
    public let count: Int

    /// A row that shows the current row of a statement.
    init(showing statement: Statement) {
        self.statement = statement.handle
        owner = statement
        values = []
        columns = statement.columns
        count = columns.count
    }

    /// A row of its own values.
    @usableFromInline
    init(values: [DatabaseValue], columns: RowColumns) {
        statement = nil
        owner = nil
        self.values = values
        self.columns = columns
        count = values.count
    }

    /// A row without columns.
    public convenience init() { self.init(values: [], columns: RowColumns(names: [])) }

    /// A row of the given columns, sorted by name.
    public convenience init(_ values: [String: (any DatabaseValueConvertible)?]) {
        let sorted = values.sorted { $0.key < $1.key }
        self.init(
            values: sorted.map { $0.value?.databaseValue ?? .null }, columns: RowColumns(names: sorted.map(\.key)))
    }

    /// The row with values of its own, which stay when the statement goes on.
    public func copy() -> Row {
        guard let statement else { return self }
        return Row.copy(of: statement, columns: columns)
    }

    @usableFromInline
    static func copy(of statement: StatementHandle, columns: RowColumns) -> Row {
        let count = columns.count
        let values = [DatabaseValue](unsafeUninitializedCapacity: count) { buffer, initialized in
            for index in 0..<count {
                buffer.initializeElement(at: index, to: DatabaseValue(statement: statement, index: CInt(index)))
            }
            initialized = count
        }
        return Row(values: values, columns: columns)
    }

    // MARK: Names

    /// The names of the columns, from left to right.
    public var columnNames: [String] { columns.names }

    /// Whether there is a column of this name, in any case.
    public func hasColumn(_ name: String) -> Bool { columns.index(of: name) != nil }

    // MARK: Stored values

    /// The stored value of a column, counted from 0.
    public func databaseValue(at index: Int) -> DatabaseValue {
        requireColumn(index)
        if let statement { return DatabaseValue(statement: statement, index: CInt(index)) }
        return values[index]
    }

    /// The stored values, from left to right.
    public var databaseValues: [DatabaseValue] { (0..<count).map { databaseValue(at: $0) } }

    @inlinable
    func requireColumn(_ index: Int) {
        precondition(index >= 0 && index < count, "row has no column at this index")
    }

    /// Whether the value of a column is NULL.
    public func hasNull(atIndex index: Int) -> Bool {
        requireColumn(index)
        return statement?.isNull(at: CInt(index)) ?? values[index].isNull
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
    /// Whether names and values are the same, in the same order.
    public static func == (left: Row, right: Row) -> Bool {
        left === right || (left.columnNames == right.columnNames && left.databaseValues == right.databaseValues)
    }
}

extension Row: Hashable {
    public func hash(into hasher: inout Hasher) {
        hasher.combine(columnNames)
        hasher.combine(databaseValues)
    }
}

extension Row: CustomStringConvertible {
    /// Names and values, as in `[id:1 name:"Ann"]`. Values are data: keep it out of logs.
    public var description: String {
        let pairs = zip(columnNames, databaseValues).map { name, value -> String in
            if case .string(let text) = value.storage { return "\(name):\(String(reflecting: text))" }
            return "\(name):\(value)"
        }
        return "[" + pairs.joined(separator: " ") + "]"
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
final class RowColumns {
    @usableFromInline let names: [String]
    @usableFromInline let count: Int
    // The leftmost column of a name wins. Made at once: rows of one statement may be read on several threads.
    private let indexes: [String: Int]
    /// Whether two names differ in case alone, or not at all.
    private let hasTwins: Bool

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
        // Code mostly asks in the spelling of the query: no lower-casing then.
        if !hasTwins, let index = names.firstIndex(of: name) { return index }
        return indexes[name.lowercased()]
    }
}
