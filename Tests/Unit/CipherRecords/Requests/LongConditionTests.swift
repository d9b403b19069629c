import CipherDatabase
import CipherRecords
import Testing

/// Conditions that a program builds in a loop, operand by operand.
@Suite struct LongConditionTests {
    private static let rows = Table("t")
    private let queue: DatabaseQueue

    init() throws {
        queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY, a INT);
                    WITH RECURSIVE c (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM c WHERE i < 99)
                    INSERT INTO t (a) SELECT i FROM c;
                    """)
        }
    }

    private func sql(_ request: some FetchRequest) throws -> String {
        try queue.read { try request.makePreparedRequest($0).statement.sql }
    }

    private func count(_ request: QueryInterfaceRequest<Row>) throws -> Int {
        try queue.read { try request.fetchCount($0) }
    }

    @Test(
        "the SQL text is that of one chain, at both ends and for each operator",
        arguments: [2, 63, 64, 65, 129, 5000])
    func oneChain(length: Int) throws {
        let terms = (0..<length).map { Column("a") == $0 }
        var (appended, prepended) = (terms[0], terms[length - 1])
        var both = terms[0]
        for term in terms.dropFirst() { appended = appended || term }
        for term in terms.dropLast().reversed() { prepended = term || prepended }
        for term in terms.dropFirst() { both = both && term }
        let chain = try sql(Self.rows.filter(terms.joined(operator: .or)))
        #expect(try sql(Self.rows.filter(appended)) == chain)
        #expect(try sql(Self.rows.filter(prepended)) == chain)
        #expect(try sql(Self.rows.filter(both)) == chain.replacing(" OR ", with: " AND "))
        #expect(try count(Self.rows.filter(appended)) == min(length, 100))
        #expect(try count(Self.rows.filter(!appended)) == max(0, 100 - length))
        #expect(try count(Self.rows.filter(prepended && Column("a") < 10)) == min(length, 10))
    }

    @Test("so is that of filters one after the other", arguments: [2, 64, 65, 5000])
    func filters(length: Int) throws {
        let terms = (0..<length).map { Column("a") != $0 }
        var request = Self.rows.all()
        for term in terms { request = request.filter(term) }
        #expect(try sql(request) == sql(Self.rows.filter(terms.joined(operator: .and))))
        #expect(try count(request) == max(0, 100 - length))
    }

    @Test("two long chains of one operator are one, those of different ones are not")
    func chainsOfChains() throws {
        let terms = (0..<200).map { Column("a") == $0 }
        let whole = terms.joined(operator: .or)
        let halves = terms[..<100].joined(operator: .or) || terms[100...].joined(operator: .or)
        #expect(try sql(Self.rows.filter(halves)) == sql(Self.rows.filter(whole)))
        let mixed = terms[..<70].joined(operator: .or) && terms[70..<140].joined(operator: .or)
        #expect(try count(Self.rows.filter(mixed)) == 0)
        #expect(try sql(Self.rows.filter(mixed)).contains(") AND ("))
    }

    @Test("the region of a long condition on the key is narrowed to its rows")
    func region() throws {
        var condition = Column("id") == 1
        for id in 2...300 { condition = condition || Column("id") == id }
        let (region, other) = try queue.read { db in
            (
                try Self.rows.filter(condition).databaseRegion(db),
                try Self.rows.filter(Column("id") == 301).databaseRegion(db)
            )
        }
        #expect(region != DatabaseRegion(table: "t") && !region.isEmpty && !other.isEmpty)
    }
}
