import CipherDatabase
import CipherSchema
import Synchronization

/// A type that stands for the rows of a table.
///
/// ```swift
/// struct Player: TableRecord {
///     enum Columns {
///         static let score = Column("score")
///     }
/// }
/// let request = Player.filter { $0.score > 100 }.order { $0.score.desc }
/// ```
public protocol TableRecord: SendableMetatype {
    /// The columns of the table, for closures such as `{ $0.score > 100 }`.
    associatedtype Columns = Never
    /// The argument of such closures.
    associatedtype DatabaseComponents = Columns.Type

    /// The name of the table. That of the type, unless it is said: `player` of `Player`, `httpRequest` of
    /// `HTTPRequest`.
    static var databaseTableName: String { get }

    /// The selections of requests. All columns, unless it is said.
    static var databaseSelection: [any SQLSelectable] { get }

    /// The argument of closures such as `{ $0.score > 100 }`.
    static var databaseComponents: DatabaseComponents { get }
}

extension TableRecord {
    public static var databaseTableName: String { TableNames.name(of: Self.self) }

    public static var databaseSelection: [any SQLSelectable] { [AllColumns()] }
}

/// The names of tables that follow from those of types. Asking Swift for the name of a type takes longer than a
/// point read.
enum TableNames {
    private static let known = Mutex<[ObjectIdentifier: String]>([:])

    static func name(of type: Any.Type) -> String {
        known.withLock { known in
            if let name = known[ObjectIdentifier(type)] { return name }
            let name = tableName(of: String(describing: type))
            known[ObjectIdentifier(type)] = name
            return name
        }
    }

    /// The name of a type as that of a table: capital letters at the beginning in lower case, without generic
    /// arguments. SQLite does not care about the case, but programs compare the names: they are GRDB's.
    static func tableName(of typeName: String) -> String {
        let name = typeName.prefix { $0 == "_" || $0.isLetter || $0.isNumber }
        let capitals = name.prefix { $0.isASCII && $0.isUppercase }
        if capitals.isEmpty || capitals.count == name.count { return name.lowercased() }
        // The last of several capital letters begins the next word.
        let head = capitals.count > 1 ? capitals.dropLast() : capitals
        return head.lowercased() + name[head.endIndex...]
    }
}

extension TableRecord where DatabaseComponents == Columns.Type {
    public static var databaseComponents: Columns.Type { Columns.self }
}

extension TableRecord {
    /// The relation of all rows.
    static var relation: Relation {
        var relation = Relation(table: databaseTableName)
        let selection = databaseSelection
        if !selection.isAllColumns { relation.selection = selection.map { $0.sqlSelection.content } }
        return relation
    }

    // MARK: Requests

    /// All rows of the table.
    public static func all() -> QueryInterfaceRequest<Self> { QueryInterfaceRequest(relation: relation) }

    /// No row.
    public static func none() -> QueryInterfaceRequest<Self> { all().none() }

    /// Selects something else than ``databaseSelection``.
    public static func select(_ selection: any SQLSelectable...) -> QueryInterfaceRequest<Self> {
        all().select(selection)
    }

    /// Selects something else than ``databaseSelection``.
    public static func select(_ selection: [any SQLSelectable]) -> QueryInterfaceRequest<Self> {
        all().select(selection)
    }

    /// Selects something else than ``databaseSelection``.
    public static func select(
        _ selection: (DatabaseComponents) throws -> any SQLSelectable
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().select(selection)
    }

    /// Selects something else than ``databaseSelection``.
    public static func select(
        _ selection: (DatabaseComponents) throws -> [any SQLSelectable]
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().select(selection)
    }

    /// Selects SQL text.
    public static func select(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<Self> {
        all().select(sql: sql, arguments: arguments)
    }

    /// Selects SQL text.
    public static func select(literal: SQL) -> QueryInterfaceRequest<Self> { all().select(literal: literal) }

    /// Adds to what is selected.
    public static func annotated(with selection: any SQLSelectable...) -> QueryInterfaceRequest<Self> {
        all().annotated(with: selection)
    }

    /// Adds to what is selected.
    public static func annotated(with selection: [any SQLSelectable]) -> QueryInterfaceRequest<Self> {
        all().annotated(with: selection)
    }

    /// Adds to what is selected.
    public static func annotated(
        with selection: (DatabaseComponents) throws -> any SQLSelectable
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().annotated(with: selection)
    }

    /// Adds to what is selected.
    public static func annotated(
        with selection: (DatabaseComponents) throws -> [any SQLSelectable]
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().annotated(with: selection)
    }

    /// The rows for which a condition is true.
    public static func filter(_ predicate: any SQLSpecificExpressible) -> QueryInterfaceRequest<Self> {
        all().filter(predicate)
    }

    /// All rows, or none.
    public static func filter(
        _ predicate: (DatabaseComponents) throws -> ConstantCondition
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().filter(predicate)
    }

    /// The rows for which a condition is true.
    public static func filter(
        _ predicate: (DatabaseComponents) throws -> any SQLSpecificExpressible
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().filter(predicate)
    }

    /// The rows for which a condition is true.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public static func filter(
        _ predicate: (DatabaseComponents) throws -> any SQLExpressible
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().filter(predicate)
    }

    /// The rows for which a condition in SQL text is true.
    public static func filter(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<Self> {
        all().filter(sql: sql, arguments: arguments)
    }

    /// The rows for which a condition in SQL text is true.
    public static func filter(literal: SQL) -> QueryInterfaceRequest<Self> { all().filter(literal: literal) }

    /// The row with a primary key; none for nil.
    @_disfavoredOverload
    public static func filter(key: (some DatabaseValueConvertible)?) -> QueryInterfaceRequest<Self> {
        all().filter(key: key)
    }

    /// The row with the columns of a unique key; none for nil.
    public static func filter(key: [String: (any DatabaseValueConvertible)?]?) -> QueryInterfaceRequest<Self> {
        all().filter(key: key)
    }

    /// The rows with primary keys.
    @_disfavoredOverload
    public static func filter(keys: some Collection<some DatabaseValueConvertible>) -> QueryInterfaceRequest<Self> {
        all().filter(keys: keys)
    }

    /// The rows with the columns of unique keys.
    public static func filter(keys: [[String: (any DatabaseValueConvertible)?]]) -> QueryInterfaceRequest<Self> {
        all().filter(keys: keys)
    }

    /// The rows that fit a full-text pattern; none for nil.
    public static func matching(_ pattern: (any FullTextPattern)?) -> QueryInterfaceRequest<Self> {
        all().matching(pattern)
    }

    /// The rows in an order.
    public static func order(_ orderings: any SQLOrderingTerm...) -> QueryInterfaceRequest<Self> {
        all().order(orderings)
    }

    /// The rows in an order.
    public static func order(_ orderings: [any SQLOrderingTerm]) -> QueryInterfaceRequest<Self> {
        all().order(orderings)
    }

    /// The rows in an order.
    public static func order(
        _ orderings: (DatabaseComponents) throws -> any SQLOrderingTerm
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().order(orderings)
    }

    /// The rows in an order.
    public static func order(
        _ orderings: (DatabaseComponents) throws -> [any SQLOrderingTerm]
    ) rethrows -> QueryInterfaceRequest<Self> {
        try all().order(orderings)
    }

    /// The rows in an order in SQL text.
    public static func order(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<Self> {
        all().order(sql: sql, arguments: arguments)
    }

    /// The rows in an order in SQL text.
    public static func order(literal: SQL) -> QueryInterfaceRequest<Self> { all().order(literal: literal) }

    /// The rows in the order of their primary key.
    public static func orderByPrimaryKey() -> QueryInterfaceRequest<Self> { all().orderByPrimaryKey() }

    /// The first rows.
    ///
    /// - Parameters:
    ///   - limit: The number of rows.
    ///   - offset: How many rows to skip before them.
    public static func limit(_ limit: Int, offset: Int? = nil) -> QueryInterfaceRequest<Self> {
        all().limit(limit, offset: offset)
    }

    /// The rows under an alias.
    public static func aliased(_ alias: TableAlias<Self>) -> QueryInterfaceRequest<Self> { all().aliased(alias) }

    /// The rows under an alias.
    public static func aliased(_ alias: TableAlias<Void>) -> QueryInterfaceRequest<Self> { all().aliased(alias) }

    /// The rows of a statement that has a common table expression.
    public static func with<T>(_ cte: CommonTableExpression<T>) -> QueryInterfaceRequest<Self> { all().with(cte) }

    // MARK: Counting and deleting

    /// How many columns ``databaseSelection`` has.
    public static func numberOfSelectedColumns(_ db: Database) throws -> Int {
        try all().makePreparedRequest(db, forSingleResult: false).statement.columnCount
    }

    /// How many rows the table has.
    public static func fetchCount(_ db: Database) throws -> Int { try all().fetchCount(db) }

    /// Deletes all rows.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public static func deleteAll(_ db: Database) throws -> Int { try all().deleteAll(db) }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public static func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: ColumnAssignment...
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public static func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public static func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignment: (DatabaseComponents) throws -> ColumnAssignment
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignment: assignment)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public static func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments: assignments)
    }
}

extension TableRecord where Self: Identifiable, ID: DatabaseValueConvertible {
    /// The row with an identifier.
    public static func filter(id: ID) -> QueryInterfaceRequest<Self> { all().filter(id: id) }

    /// The rows with identifiers.
    @_disfavoredOverload
    public static func filter(ids: some Collection<ID>) -> QueryInterfaceRequest<Self> { all().filter(ids: ids) }
}

extension TableRecord where Self: Identifiable {
    /// The identifiers of all rows.
    public static func selectID() -> QueryInterfaceRequest<ID> { selectPrimaryKey() }
}

extension TableRecord {
    /// The primary keys of all rows.
    public static func selectPrimaryKey<Key>(as type: Key.Type = Key.self) -> QueryInterfaceRequest<Key> {
        all().selectPrimaryKey(as: type)
    }

    /// Selects something that is read as another type.
    public static func select<T>(_ selection: any SQLSelectable..., as type: T.Type = T.self)
        -> QueryInterfaceRequest<T>
    {
        all().select(selection, as: type)
    }

    /// Selects something that is read as another type.
    public static func select<T>(_ selection: [any SQLSelectable], as type: T.Type = T.self)
        -> QueryInterfaceRequest<T>
    {
        all().select(selection, as: type)
    }

    /// Selects something that is read as another type.
    public static func select<T>(
        _ selection: (DatabaseComponents) throws -> any SQLSelectable, as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try all().select(selection, as: type)
    }

    /// Selects something that is read as another type.
    public static func select<T>(
        _ selection: (DatabaseComponents) throws -> [any SQLSelectable], as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try all().select(selection, as: type)
    }

    /// Selects SQL text that is read as another type.
    public static func select<T>(
        sql: String, arguments: StatementArguments = StatementArguments(), as type: T.Type = T.self
    ) -> QueryInterfaceRequest<T> {
        all().select(sql: sql, arguments: arguments, as: type)
    }

    /// Selects SQL text that is read as another type.
    public static func select<T>(literal: SQL, as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        all().select(literal: literal, as: type)
    }
}
