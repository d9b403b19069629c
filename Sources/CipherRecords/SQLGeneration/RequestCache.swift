import CipherDatabase

/// The state that the record layer keeps for one connection, for as long as the schema stays the same.
final class RequestCache: ConnectionFeature {
    static let key = FeatureKey<RequestCache>(.records)

    /// The most requests of different shapes that are kept: at this number all are dropped.
    static let mostRequests = 500

    private var generation: Int
    private var requests: [StatementRequest: CompiledRequest] = [:]
    /// The statements of the requests: those whose aliases have no names differ in shape, and not in text.
    private var statements: [String: LazyStatement] = [:]
    /// The kept facts about record types.
    var recordTables: [TypeAndTable: RecordTable] = [:]
    /// The table of the record type used last.
    var latestTable: (key: TypeAndTable, table: RecordTable)?

    /// A record type, and the table that it has at the moment.
    struct TypeAndTable: Hashable {
        let type: ObjectIdentifier
        let table: String
    }

    /// How many requests found their SQL here, and how many did not.
    private var counts = (found: 0, generated: 0)

    init(generation: Int) { self.generation = generation }

    /// Ends a retain cycle: the connection keeps this object, whose statements keep the connection.
    func willClose(_ db: Database) { db.features[Self.key] = nil }

    /// Drops everything if the schema has changed.
    func compare(_ generation: Int) {
        if generation == self.generation { return }
        self.generation = generation
        requests.removeAll()
        statements.removeAll()
        recordTables.removeAll()
        latestTable = nil
    }

    var statistics: RequestStatistics {
        RequestStatistics(
            found: counts.found, generated: counts.generated,
            compiled: statements.values.reduce(0) { $0 + $1.compilationCount })
    }

    /// The request of this shape that is compiled; nil when there is none yet.
    func compiled(_ request: StatementRequest) -> CompiledRequest? {
        guard let compiled = requests[request] else { return nil }
        counts.found += 1
        return compiled
    }

    /// Compiles a request.
    func compile(_ request: StatementRequest, _ db: Database) throws -> CompiledRequest {
        if requests.count >= Self.mostRequests { requests.removeAll() }
        if statements.count >= Self.mostRequests { statements.removeAll() }
        let compiled = try CompiledRequest(request, facts: SchemaFacts(db)) { sql in
            if let known = statements[sql] { return known }
            let lazy = LazyStatement(sql: sql)
            statements[sql] = lazy
            return lazy
        }
        counts.generated += 1
        requests[compiled.shape] = compiled
        return compiled
    }

    /// The table of a record type, for the table that it has now: a program may compute the name, as for each tenant.
    func table(of type: any TableRecord.Type, _ db: Database) throws -> RecordTable {
        let key = TypeAndTable(type: ObjectIdentifier(type), table: type.databaseTableName)
        if let latestTable, latestTable.key == key { return latestTable.table }
        let table = try recordTables[key] ?? RecordTable(type, db)
        if recordTables.count >= Self.mostRequests { recordTables.removeAll() }
        recordTables[key] = table
        latestTable = (key, table)
        return table
    }
}
