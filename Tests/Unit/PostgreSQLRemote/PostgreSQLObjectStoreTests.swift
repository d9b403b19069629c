#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Testing

    @testable import PostgreSQLRemote

    @Suite("PostgreSQL as a remote", .timeLimit(.minutes(3)))
    struct PostgreSQLObjectStoreTests {
        private let database: TestDatabase
        private let store: PostgreSQLObjectStore

        init() throws {
            database = try TestDatabase()
            store = try database.store()
        }

        @Test("one store puts objects, another one lists, gets and deletes them; a name that is taken keeps its bytes")
        func exchange() throws {
            #expect(try store.list("").isEmpty && store.get(1) == nil)
            #expect(try store.put([1, 2, 3]) == [.stored, .stored, .stored])
            #expect(try store.put(Make.name(2), [9]) == .alreadyPresent)
            let other = try database.store()
            #expect(try other.names() == [1, 2, 3].map { Make.name($0) })
            #expect(try other.list("c/").isEmpty)
            #expect(try other.get(2) == Make.object(2))
            #expect(try other.get(Make.name(2), limitBytes: 4) == Array(Make.object(2).prefix(5)))
            #expect(try other.get(4) == nil)
            try other.delete(Make.name(2))
            try other.delete(Make.name(2))
            #expect(try other.get(2) == nil && store.names() == [Make.name(1), Make.name(3)])
            #expect(try store.put(Make.name(2), []) == .stored)
            #expect(try other.get(2) == [])
            #expect(store.name == "postgresql:///\(database.name)?host=\(database.server.folder)")
        }

        @Test("an object of the greatest length is put and got whole")
        func greatest() throws {
            let bytes = Make.bytes(ExchangeLimits.objectBytes, seed: 5)
            #expect(try store.put(Make.name(1), bytes) == .stored)
            #expect(try store.get(Make.name(1), limitBytes: ExchangeLimits.objectBytes) == bytes)
        }

        @Test(
            "listing is one statement, also when something is new, and deletions and a server that is set back are seen"
        )
        func statements() throws {
            let proxy = try FaultyProxy(before: database.server) { _, _ in nil }
            let reader = try database.store(through: proxy.folder)
            defer { withExtendedLifetime(proxy) {} }
            try store.put(1...50)
            #expect(try reader.list("").count == 50)
            let (first, other) = (
                proxy.count("SELECT cipherstore.repository"), { proxy.count("SELECT cipherstore.object") }
            )
            for _ in 0..<5 { #expect(try reader.list("").count == 50) }
            try store.put(51...60)
            #expect(try reader.names() == (1...60).map { Make.name($0) })
            #expect(proxy.count("SELECT cipherstore.repository") == first + 6 && other() == 0)
            try store.delete(Make.name(7))
            #expect(try !reader.names().contains(Make.name(7)) && other() == 1)
            // As many as before, and others.
            try store.put([70])
            #expect(try reader.list("").count == 60)
            try database.run("DELETE FROM cipherstore.object WHERE name IN ('\(Make.name(1))', '\(Make.name(2))')")
            try store.put([71, 72])
            let names = try reader.names()
            #expect(names == [3...6, 8...60, 70...72].joined().map { Make.name($0) })
            try database.run("TRUNCATE cipherstore.object")
            #expect(try reader.list("").isEmpty)
            try store.put([1])
            #expect(try reader.names() == [Make.name(1)])
            try database.run("DROP SCHEMA cipherstore CASCADE")
            #expect(try reader.list("").isEmpty)
            #expect(try store.put([2]) == [.stored])
            #expect(try reader.names() == [Make.name(2)])
        }

        /// A number in the order of insertion would be committed after a greater one, behind the position of a reader.
        @Test("an object whose transaction is slow is listed when it is committed, after objects that were put later")
        func slowTransaction() throws {
            try store.put([1])
            let gate = try TestDatabase.connect(database.url)
            let lock = Statement("SELECT 1::bigint FROM pg_advisory_lock(7)", columns: 1, mostRows: 1, valueBytes: 8)
            try gate.run(lock, within: .seconds(20))
            let url = database.url
            let slow = Work {
                let connection = try TestDatabase.connect(url)
                let insertion = Statement(
                    """
                    WITH i AS (INSERT INTO cipherstore.object (repo, name, body)
                        VALUES ('\\x\(Make.repository())', '\(Make.name(2))', '') RETURNING 1)
                    SELECT 1::bigint FROM i, pg_advisory_xact_lock(7)
                    """, columns: 1, mostRows: 1, valueBytes: 8)
                try connection.run(insertion, within: .seconds(30))
            }
            _ = try database.first("SELECT 'waits' FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            for number in 3...5 {
                try store.put([number])
                #expect(try store.names() == ([1] + (3...number)).map { Make.name($0) })
            }
            gate.close()
            try slow.value()
            #expect(try store.names() == (1...5).map { Make.name($0) })
        }

        @Test(
            "a database that was restored on a server with lower transaction ids is listed whole, and then by its changes"
        )
        func lowerTransactions() throws {
            try store.put(1...30)
            try database.run("UPDATE cipherstore.object SET txid = 9000000000 + txid")
            let proxy = try FaultyProxy(before: database.server) { _, _ in nil }
            defer { withExtendedLifetime(proxy) {} }
            let reader = try database.store(through: proxy.folder)
            for store in [store, reader] { #expect(try store.list("").count == 30) }
            try store.put([31])
            let names = proxy.count("SELECT cipherstore.object")
            #expect(try reader.list("").count == 31 && reader.list("").count == 31)
            #expect(proxy.count("SELECT cipherstore.object") == names)
        }

        @Test("more names than one answer has are listed, new ones and all of them")
        func manyNames() throws {
            try store.put([1])
            let count = 2 * PostgreSQLLimits.namesAtOnce + 17
            func insert(_ range: ClosedRange<Int>) throws {
                try database.run(
                    """
                    INSERT INTO cipherstore.object (repo, name, body) SELECT '\\x\(Make.repository())',
                        'p/' || lpad(to_hex(n), 32, '0'), '' FROM generate_series(\(range.lowerBound), \(range.upperBound)) AS n
                    """)
            }
            try insert(1...count)
            #expect(try store.names("p/").count == count && store.list("").count == count + 1)
            try insert(count + 1...2 * count)
            let other = try database.store()
            for store in [store, other] { #expect(Set(try store.list("").map(\.name)).count == 2 * count + 1) }
        }

        @Test("many writers at once, some of the same objects, lose nothing, and each object is stored once")
        func crowd() throws {
            let outcomes = try Work.all(6) { [database] number in
                let own = try database.store()
                return try own.put((0..<40).map { number * 20 + $0 }).count { $0 == .stored }
            }
            #expect(outcomes.reduce(0, +) == 140)
            #expect(try store.names() == (0..<140).map { Make.name($0) })
            for number in 0..<140 { #expect(try store.get(number) == Make.object(number)) }
        }

        @Test("calls of several threads on one store wait for each other, and use one connection")
        func threads() throws {
            let results = try Work.all(8) { [store, database] number in
                try store.put((0..<10).map { number * 10 + $0 })
                let counting = """
                    SELECT count(*)::text FROM pg_stat_activity
                    WHERE datname = '\(database.name)' AND application_name = 'CipherStore'
                    """
                return try database.texts(counting)[0]
            }
            // One is the administrator's.
            #expect(Set(results) == ["2"])
            #expect(try store.list("").count == 80)
        }
    }
#endif
