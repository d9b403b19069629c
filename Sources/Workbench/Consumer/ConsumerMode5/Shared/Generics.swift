import CipherStore
import Foundation

// The protocols of GRDB in the generic functions and conformances of a program. That this compiles is the test: the calls
// themselves run in Tests/Unit/CipherRecords/Vocabulary.

/// Requests of any kind.
enum AnyRequests {
    static func observe<R: FetchRequest>(
        _ request: R
    ) -> ValueObservation<ValueReducers.Fetch<[R.RowDecoder]>> where R.RowDecoder: FetchableRecord & Sendable {
        ValueObservation.tracking { db in try request.fetchAll(db) }
    }

    static func observeRegion<R: DatabaseRegionConvertible>(_ region: R) -> DatabaseRegionObservation {
        DatabaseRegionObservation(tracking: region)
    }

    static func conditions<R: FetchRequest>(_ request: R) -> [SQLExpression] {
        [request.exists(), request.contains(1), request.contains(Column("a")), Column("a") == request]
    }

    static func texts<R: FetchRequest>(_ request: R) -> [SQL] {
        ["SELECT 1 WHERE x IN (\(request))", "SELECT 1 WHERE x IN \(request)"]
    }

    static func erased<R: FetchRequest>(_ request: R) -> AnyFetchRequest<Row> {
        AnyFetchRequest(request).asRequest(of: Row.self)
    }

    static func adapted<R: FetchRequest>(_ request: R) -> any Sendable {
        let adapted: AdaptedFetchRequest<R> = request.adapted { _ in ScopeAdapter([:]) }
        return adapted
    }

    static func create<R: SQLSubqueryable>(_ db: Database, view name: String, as request: R) throws {
        try db.create(view: name, options: [.ifNotExists, .temporary], columns: ["a"], as: request)
    }

    static func table<T: TableRecord>(of type: T.Type) -> @Sendable () -> String { { T.databaseTableName } }

    static func cursor<C: Cursor>(_ cursor: C) throws -> Bool { try cursor.isEmpty }

    static func sets(_ set: Set<Int>, _ cursor: some Cursor<Int>) throws -> Set<Int> {
        var set = try set.union(cursor).intersection(cursor)
        try set.formUnion(cursor)
        try set.formIntersection(cursor)
        return set
    }

    static func optional<E: SQLExpressible>(_ expression: E?) -> SQLExpression { Column("a") == expression }

    static func optionals(
        _ selection: (any SQLSelectable)?, _ expression: (any SQLExpressible)?, _ record: any TableRecord
    ) -> SQL { "SELECT \(selection), \(expression) FROM \(tableOf: record)" }
}

/// Types of a program with raw values.
enum RawValues {
    struct Price: RawRepresentable, SQLExpressible { var rawValue: Int }
    struct Name: RawRepresentable, SQLSpecificExpressible { var rawValue: Column }
    struct Selected: RawRepresentable, SQLSelectable { var rawValue: Column }
    struct Ordered: RawRepresentable, SQLOrderingTerm { var rawValue: SQLOrdering }

    static let request = Cook.filter(Name(rawValue: Column("name")) == Price(rawValue: 1))
        .select(Selected(rawValue: Column("name"))).order(Ordered(rawValue: Column("name").desc))
}

/// A scheduler of a program.
struct OnMainQueue: ValueObservationMainActorScheduler {
    func immediateInitialValue() -> Bool { false }
    func scheduleOnMainActor(_ action: @escaping @MainActor () -> Void) {
        DispatchQueue.main.async { MainActor.assumeIsolated { action() } }
    }
}

enum Declarations {
    @MainActor
    static func schedulers(_ reader: any DatabaseReader) -> [AnyDatabaseCancellable] {
        let observation = ValueObservation.tracking { db in try Cook.fetchCount(db) }
        return [
            observation.start(in: reader, scheduling: OnMainQueue(), onError: { _ in }, onChange: { _ in }),
            observation.start(
                in: reader, scheduling: AsyncValueObservationScheduler(queue: .main), onError: { _ in },
                onChange: { _ in }),
        ]
    }

    static func aliases() -> any Sendable {
        let (named, other): (TableAlias<Cook>, TableAlias<Void>) = (TableAlias(name: "c", for: Cook.self), TableAlias())
        let request = Cook.aliased(named).filter(named.name > "a").order(named.name.desc).select(named.born)
        return (Set([named]).count, Set([other]).count, request)
    }

    static func snapshot(of pool: DatabasePool) throws -> any DatabaseSnapshotReader { try pool.makeSnapshotPool() }

    static func database(_ db: Database) throws {
        let (frames, checkpointed) = try db.checkpoint(.passive)
        let violations: RecordCursor<ForeignKeyViolation> = try db.foreignKeyViolations()
        let api: UnsafePointer<fts5_api> = FTS5.api(db)
        let storage: Database.StorageClass = .text
        let ids: Set<DatabaseObjectID> = [DatabaseObjectID(name: "a", schemaID: .temp)]
        let mode = Database.CheckpointMode(rawValue: CInt(1))
        let known: [Any?] = [
            frames, checkpointed, try violations.next(), api, cast(Column("a"), as: storage), ids, mode,
            DatabaseSchemaID.main.schemaTableName, db.debugDescription, Database.jsonIsValid("[]", options: nil),
            coalesce([Column("a"), Column("b")]), Set<StatementArguments>(),
            try db.makeStatement(sql: "SELECT 1 AS a").index(ofColumn: "a"),
        ]
        check(known.count == 13, "all of them are there")
    }

    static func upkeep(of writer: some DatabaseWriter, into path: String) async throws {
        try await writer.vacuum()
        try await writer.vacuum(into: path)
        try await writer.erase()
    }

    static func columns(of container: PersistenceContainer) -> [String] { container.map { $0.0 } }

    static func isMissing(_ error: any Error) -> Bool {
        if let error = error as? PersistenceError, case .recordNotFound = error { return true }
        return false
    }

    static func index<I: Strideable>(_ index: I.Type) -> I.Type { index }
    static let rowIndex = index(Row.Index.self)
}
