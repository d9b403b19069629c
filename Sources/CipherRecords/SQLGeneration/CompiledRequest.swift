import CipherDatabase

/// The parts that a connection keeps of requests of one shape: the SQL text, the compiled statement, and the places of
/// the values.
final class CompiledRequest {
    /// The request with numbers in the places of its values: no value of the program is kept.
    let shape: StatementRequest
    /// The position of each parameter's value among the values of the request; nil where they have the same order.
    private let order: [Int]?
    /// The positions of values that have to be equal, because the text has only the first of each two.
    private let equalValues: [(name: String, Int, Int)]
    let adapter: (any RowAdapter)?
    private let statement: LazyStatement

    /// Writes the SQL of a request. The request that is written holds numbers in the places of its values, so that the
    /// parameters tell where the values of the next request of this shape go.
    ///
    /// - Parameter statement: Gives the statement of an SQL text, which several requests may share.
    init(
        _ request: StatementRequest, facts: SchemaFacts, statement: (String) -> LazyStatement
    ) throws {
        var count = 0
        let numbered = try request.rewritten(
            Rewriting { _ in
                count += 1
                return (count - 1).databaseValue
            })
        shape = numbered
        var numbers: [DatabaseValue] = []
        numbered.forEachValue { numbers.append($0) }
        guard numbers == (0..<count).map(\.databaseValue) else {
            throw DatabaseError(message: "the values of a request are not read in the order in which they are replaced")
        }
        let generated = try SQLGenerator.generate(numbered, facts: facts)
        self.statement = statement(generated.text)
        adapter = generated.scopeLayout.map { KeptRowAdapter($0.adapter) }
        let order = generated.values.map { Int.fromDatabaseValue($0) ?? 0 }
        self.order = order.elementsEqual(0..<count) ? nil : order
        equalValues = generated.equalValues.map {
            ($0.name, Int.fromDatabaseValue($0.first) ?? 0, Int.fromDatabaseValue($0.second) ?? 0)
        }
    }

    /// The statement with the values of a request.
    func prepared(_ request: StatementRequest, _ db: Database) throws -> PreparedRequest {
        var values: [DatabaseValue] = []
        request.forEachValue { values.append($0) }
        for (name, first, second) in equalValues where values[first] != values[second] {
            throw SQLGenerator.twoCommonTables(name)
        }
        if let order { values = order.map { values[$0] } }
        let statement = try statement.idleStatement(db)
        try statement.setArguments(StatementArguments(plain: values))
        return PreparedRequest(statement: statement, adapter: adapter)
    }
}

/// How many requests of a connection reused a plan, and for how many SQL was generated.
package struct RequestStatistics {
    /// Requests of a shape that was known: their SQL text and statement were there.
    package let found: Int
    /// Requests whose SQL text was generated.
    package let generated: Int
    /// How often the statements of requests were compiled.
    package let compiled: Int
}

extension Database {
    /// How many requests of this connection reused a plan so far.
    package func requestStatistics() throws -> RequestStatistics { try records().statistics }

    /// The state that the record layer keeps for this connection.
    func records() throws -> RequestCache {
        let generation = try schemaGeneration()
        if let storage = features[RequestCache.key] {
            storage.compare(generation)
            return storage
        }
        let storage = RequestCache(generation: generation)
        features.add(storage, for: RequestCache.key, at: .close)
        return storage
    }

    /// The statement of a request, compiled once for all requests of its shape.
    func prepare(_ request: StatementRequest) throws -> PreparedRequest {
        let storage = try records()
        if let compiled = storage.compiled(request) { return try compiled.prepared(request, self) }
        let rewriting = Rewriting(database: self)
        let resolved = try request.rewritten(rewriting)
        if rewriting.hasResolved, let compiled = storage.compiled(resolved) {
            return try compiled.prepared(resolved, self)
        }
        return try storage.compile(resolved, self).prepared(resolved, self)
    }

    /// The statement of a request that reads a relation. While the access is recorded, the statement knows which rows
    /// it reads.
    func prepareRead(_ request: StatementRequest, of relation: Relation) throws -> PreparedRequest {
        let prepared = try prepare(request)
        guard isRecordingRegion else { return prepared }
        // That of former arguments.
        prepared.statement.narrowRegion(to: nil)
        let region = try withoutWatching { try relation.region(readBy: prepared.statement, self) }
        if region != prepared.statement.databaseRegion { prepared.statement.narrowRegion(to: region) }
        return prepared
    }
}

/// A statement that is compiled when it is first used.
final class LazyStatement {
    let sql: String
    // While nobody else refers to it, nobody steps through it, and it is free.
    @exclusivity(unchecked) private var statement: Statement?
    private(set) var compilationCount = 0

    init(sql: String) { self.sql = sql }

    /// The statement, or a fresh one while somebody steps through it.
    func idleStatement(_ db: Database) throws -> Statement {
        if isKnownUniquelyReferenced(&statement), let statement { return statement }
        let fresh = try db.makeStatement(sql: sql, persistent: true)
        statement = fresh
        compilationCount += 1
        return fresh
    }
}
