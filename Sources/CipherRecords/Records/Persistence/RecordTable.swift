import CipherDatabase
import CipherSchema

/// The facts that a connection keeps of one record type: table, key, and the statements that store its records.
///
/// A value belongs to one schema: ``RequestCache`` forgets it when the schema changes.
final class RecordTable {
    let name: String
    let key: SchemaFacts.Key
    let tableColumns: [String]
    let tableColumnNames: Set<String>
    /// The affinities of the columns, by their names in lower case; empty for a view, which stores nothing.
    let affinities: [String: TypeAffinity]
    /// The same for the columns that the last record gave.
    @exclusivity(unchecked) var latestAffinities: (names: ColumnNames, list: [TypeAffinity]) = (.none, [])
    /// The names of the columns that the table computes, in lower case. SQLite refuses values for them.
    let generatedNames: Set<String>
    /// The columns that the last record gave, with the positions of those that are stored.
    @exclusivity(unchecked) private var latestStored: (given: ColumnNames, positions: [Int], names: ColumnNames)?
    private let selection: [Selection]
    private let selectsAllColumns: Bool
    /// Whether the records are selected without values of the program, and without parts that need a connection.
    private let hasPlainSelection: Bool
    /// The columns that the next record is expected to give.
    @exclusivity(unchecked) var expected = ColumnNames.none
    /// The columns that an update of the last record changed, for the next one that gives the same columns.
    @exclusivity(unchecked) var latestUpdate: (names: ColumnNames, columns: ContainerColumns)?
    @exclusivity(unchecked) private var statements: [StatementKey: LazyStatement] = [:]
    /// The statement used last: most programs store many records in one way.
    @exclusivity(unchecked) private var latest: LazyStatement?
    @exclusivity(unchecked) private var latestAction = Action.fetch
    @exclusivity(unchecked) private var latestNames = ColumnNames.none

    /// The effect of a statement.
    enum Action: Hashable {
        case insert(Database.ConflictResolution)
        case upsert
        case update(Database.ConflictResolution)
        case delete
        case exists
        case fetch
    }

    private struct StatementKey: Hashable {
        let action: Action
        let names: ColumnNames

        static func == (left: StatementKey, right: StatementKey) -> Bool {
            left.action == right.action && (left.names === right.names || left.names.list == right.names.list)
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(action)
            hasher.combine(names.hashOfNames)
        }
    }

    init(_ type: any TableRecord.Type, _ db: Database) throws {
        name = type.databaseTableName
        let facts = SchemaFacts(db)
        key = try facts.primaryKey(name)
        let columns = try db.columns(in: name)
        tableColumns = columns.map(\.name)
        let stored = try db.nameOfTable(name) == nil ? [] : columns
        let isStrict = try !stored.isEmpty && db.isStrict(name)
        let affinities = stored.map { ($0.name.lowercased(), TypeAffinity(type: $0.type, isStrict: isStrict)) }
        self.affinities = Dictionary(affinities, uniquingKeysWith: { first, _ in first })
        tableColumnNames = Set(tableColumns)
        generatedNames = Set(columns.filter(\.isGenerated).map { $0.name.lowercasedASCII })
        selection = type.relation.selection
        selectsAllColumns = type.databaseSelection.isAllColumns
        hasPlainSelection = selection.allSatisfy(\.isPlain)
    }

    /// Whether the statement for one key can be kept: the selection has nothing but columns, and is that of the moment. A
    /// program may compute it.
    func keepsFetching(_ type: any TableRecord.Type) -> Bool {
        if !hasPlainSelection { return false }
        if type.databaseSelection.isAllColumns { return selectsAllColumns }
        return type.relation.selection == selection
    }

    /// A statement of this table, compiled once.
    ///
    /// - Parameter makeSQL: Writes its SQL, when it is not there.
    func statement(
        _ action: Action, _ names: ColumnNames, _ db: Database, _ makeSQL: () throws -> String
    ) throws -> Statement {
        if let latest, latestNames === names, latestAction == action { return try latest.idleStatement(db) }
        let key = StatementKey(action: action, names: names)
        if let lazy = statements[key] {
            return try keep(lazy, action, names).idleStatement(db)
        }
        let lazy = LazyStatement(sql: try makeSQL())
        if statements.count >= RequestCache.mostRequests { statements.removeAll() }
        statements[key] = lazy
        return try keep(lazy, action, names).idleStatement(db)
    }

    private func keep(_ lazy: LazyStatement, _ action: Action, _ names: ColumnNames) -> LazyStatement {
        (latest, latestAction, latestNames) = (lazy, action, names)
        return lazy
    }

    /// The columns that the record gives, with their values.
    func container(of record: some EncodableRecord) throws -> PersistenceContainer {
        var container = PersistenceContainer(expecting: expected)
        try record.encode(to: &container)
        container.finish()
        expected = container.names
        if container.values.isEmpty {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "\(type(of: record)) gives no column: encode(to:) has to set one at least")
        }
        return container
    }

    /// The columns of a record without those that the table computes.
    func withoutGenerated(_ container: PersistenceContainer) -> PersistenceContainer {
        if generatedNames.isEmpty { return container }
        if let known = latestStored, known.given === container.names {
            return PersistenceContainer(known.names, known.positions.map { container.values[$0] })
        }
        let positions = container.columns.indices.filter {
            !generatedNames.contains(container.columns[$0].lowercasedASCII)
        }
        let isWhole = positions.count == container.count
        let names = isWhole ? container.names : ColumnNames(positions.map { container.columns[$0] })
        latestStored = (container.names, positions, names)
        return PersistenceContainer(names, positions.map { container.values[$0] })
    }

    /// The values of the primary key in a container; nil when there is none but NULL.
    func keyValues(in container: PersistenceContainer) -> [DatabaseValue]? {
        let values = key.columns.map { container.value(of: $0) ?? .null }
        return values.allSatisfy(\.isNull) ? nil : values
    }

    /// The error of a key that no row has.
    func notFound(_ container: PersistenceContainer) -> RecordError {
        let pairs = key.columns.map { ($0, container.value(of: $0) ?? .null) }
        return .recordNotFound(
            databaseTableName: name, key: Dictionary(pairs, uniquingKeysWith: { first, _ in first }))
    }

    /// The condition for the row of a key. A key that is NULL in part finds none.
    var keyCondition: String {
        key.columns.map { $0.quotedDatabaseIdentifier + "=?" }.joinedAsExpression(by: " AND ")
    }
}
