import CipherDatabase

/// The columns of a record and their values, in the order in which the record gave them.
///
/// ```swift
/// func encode(to container: inout PersistenceContainer) {
///     container["id"] = id
///     container[Columns.name] = name
/// }
/// ```
public struct PersistenceContainer: Sendable {
    // Records of one type mostly give the same columns in the same order. So a container begins with the names that
    // the last record of the type had, and only compares each name with the one expected.

    /// The names of the columns; those behind the last value are only expected.
    @usableFromInline var names: ColumnNames
    /// The values of the first names.
    @usableFromInline var values: [DatabaseValue] = []
    /// Where the next value is expected.
    @usableFromInline var position = 0

    public init() { names = .none }

    /// - Parameter names: The columns to expect.
    init(expecting names: ColumnNames) {
        self.names = names
        values.reserveCapacity(names.count)
    }

    /// - Parameter values: As many as there are names.
    init(_ names: ColumnNames, _ values: [DatabaseValue]) { (self.names, self.values) = (names, values) }

    /// The columns of a record.
    public init(_ record: some EncodableRecord) throws {
        self.init()
        try record.encode(to: &self)
        finish()
    }

    // Of the subscripts below those of a known type go first: they take no box for the value.

    /// The value of a column, in any case; nil for NULL, for no such column, and for a value that does not fit.
    @inlinable
    public subscript<Value: DatabaseValueConvertible>(_ column: String) -> Value? {
        get { value(of: column).flatMap { Value.fromDatabaseValue($0) } }
        set { set(column, newValue?.databaseValue ?? .null) }
    }

    /// The value of a column; nil for NULL, for no such column, and for a value that does not fit.
    @inlinable
    public subscript<Value: DatabaseValueConvertible>(_ column: some ColumnExpression) -> Value? {
        get { value(of: column.name).flatMap { Value.fromDatabaseValue($0) } }
        set { set(column.name, newValue?.databaseValue ?? .null) }
    }

    /// The value of a column, in any case; nil for NULL and for no such column.
    @_disfavoredOverload
    public subscript(_ column: String) -> (any DatabaseValueConvertible)? {
        get { value(of: column)?.storage.value }
        set { set(column, newValue?.databaseValue ?? .null) }
    }

    /// The value of a column; nil for NULL and for no such column.
    @_disfavoredOverload
    public subscript(_ column: some ColumnExpression) -> (any DatabaseValueConvertible)? {
        get { self[column.name] }
        set { set(column.name, newValue?.databaseValue ?? .null) }
    }

    @inlinable @inline(__always)
    mutating func set(_ name: String, _ value: DatabaseValue) {
        if position == values.count, position < names.count, names.list[position] == name {
            values.append(value)
            position += 1
        } else {
            setElsewhere(name, value)
        }
    }

    /// Sets a column that was not expected at this place.
    @usableFromInline
    mutating func setElsewhere(_ name: String, _ value: DatabaseValue) {
        if let index = index(of: name) {
            values[index] = value
            return
        }
        names = ColumnNames(Array(names.list.prefix(values.count)) + [name])
        values.append(value)
        position = values.count
    }

    /// Forgets names that were expected and did not come.
    mutating func finish() {
        if names.count > values.count { names = ColumnNames(Array(names.list.prefix(values.count))) }
        position = 0
    }

    // MARK: Reading

    private func index(of name: String) -> Int? {
        // Names that are only expected do not count.
        let index = names.index(of: name)
        return index.flatMap { $0 < values.count ? $0 : nil }
    }

    /// The value of a column, in any case; nil when there is no such column.
    @usableFromInline
    func value(of name: String) -> DatabaseValue? { index(of: name).map { values[$0] } }

    /// The names of the columns.
    var columns: [String] { names.count == values.count ? names.list : Array(names.list.prefix(values.count)) }

    /// The values by the names of their columns.
    var dictionary: [String: DatabaseValue] {
        Dictionary(zip(columns, values), uniquingKeysWith: { _, last in last })
    }

    /// The columns whose values differ from those of another container, with the values there.
    func changes(from former: PersistenceContainer) -> [(column: String, former: DatabaseValue)] {
        zip(columns, values).compactMap { name, value in
            let old = former.value(of: name) ?? .null
            return old == value ? nil : (name, old)
        }
    }
}

extension PersistenceContainer: RandomAccessCollection {
    public var startIndex: Int { 0 }
    public var endIndex: Int { values.count }

    /// A column with its value, in the order of the record.
    public subscript(position: Int) -> (String, DatabaseValue) { (names.list[position], values[position]) }
}

/// The names of columns, shared by containers.
@usableFromInline
final class ColumnNames: Sendable {
    static let none = ColumnNames([])

    @usableFromInline let list: [String]
    @usableFromInline let count: Int
    /// Hashed once: a program that inserts and updates in turn looks for the statement of each.
    let hashOfNames: Int

    init(_ list: [String]) {
        self.list = list
        count = list.count
        hashOfNames = list.hashValue
    }

    /// A column by its name, in any case.
    func index(of name: String) -> Int? {
        if let index = list.firstIndex(of: name) { return index }
        let wanted = name.lowercasedASCII
        return list.firstIndex { $0.lowercasedASCII == wanted }
    }
}
