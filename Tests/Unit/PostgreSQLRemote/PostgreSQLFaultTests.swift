#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Testing

    @testable import PostgreSQLRemote

    /// Faults between a replica and its server, and the tables afterwards.
    @Suite("PostgreSQL remotes under faults", .timeLimit(.minutes(3)))
    struct PostgreSQLFaultTests {
        private let database: TestDatabase

        init() throws { database = try TestDatabase() }

        /// The tables have each object once, with its bytes.
        private func expectAll(_ numbers: ClosedRange<Int>, _ comment: Comment? = nil) throws {
            let store = try database.store()
            #expect(try store.names() == numbers.map { Make.name($0) }, comment)
            for number in numbers { #expect(try store.get(number) == Make.object(number), comment) }
        }

        private static let faults: [FaultyProxy.Fault] = [
            .cutBefore, .cutAfter, .end("57P01"), .end("57P02"), .report("40001"), .report("40P01"), .report("40003"),
            .reportAfter("40003"), .report("08006"), .reportAfter("08007"), .report("57P03"), .report("53300"),
        ]

        @Test(
            "a put whose statement fails for a moment, or whose answer is lost, is completed by itself",
            arguments: [
                "DO cipherstore.repository", "SELECT cipherstore.repository", "INSERT cipherstore.repository",
                "INSERT cipherstore.object",
            ])
        func moments(statement: String) throws {
            for fault in Self.faults {
                try database.run("DROP SCHEMA IF EXISTS cipherstore CASCADE")
                let proxy = try FaultyProxy(before: database.server) { kind, count in
                    kind == statement && count == 1 ? fault : nil
                }
                let store = try database.store(through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                #expect(try store.put(1...4).allSatisfy { $0 == .stored || $0 == .alreadyPresent }, "\(fault)")
                #expect(proxy.count(statement) >= 1, "\(fault)")
                try expectAll(1...4, "\(fault)")
            }
        }

        @Test("lists, gets and deletions are repeated after a lost connection and after a serialization failure")
        func reading() throws {
            for fault in Self.faults {
                try database.store().put(1...20)
                let proxy = try FaultyProxy(before: database.server) { _, count in count == 1 ? fault : nil }
                let store = try database.store(through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                #expect(try store.list("").count == 20, "\(fault)")
                #expect(try store.get(7) == Make.object(7), "\(fault)")
                try store.delete(Make.name(20))
                try expectAll(1...19, "\(fault)")
            }
        }

        @Test(
            "a failure that stays is reported after as many attempts as are set, and the same put completes afterwards")
        func persistent() throws {
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 3
            let cases: [(FaultyProxy.Fault, PostgreSQLError.Code, Int)] = [
                (.cutBefore, .connectionLost, 3), (.cutAfter, .connectionLost, 3), (.report("40001"), .contention, 3),
                (.report("53300"), .tooManyConnections, 3), (.report("53100"), .diskFull, 1),
                (.report("25006"), .readOnlyServer, 1), (.report("42501"), .missingRights, 1),
                (.report("XX001"), .serverError, 1),
            ]
            for (fault, code, attempts) in cases {
                let proxy = try FaultyProxy(before: database.server) { kind, _ in
                    kind == "INSERT cipherstore.object" ? fault : nil
                }
                let store = try database.store(settings: settings, through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                let error = Make.error(PostgreSQLError.self) { try store.put(1...1) }
                #expect(error?.code == code && error?.isRefusal == [.readOnlyServer, .missingRights].contains(code))
                #expect(proxy.count("INSERT cipherstore.object") == attempts)
            }
            try database.store().put(1...3)
            try expectAll(1...3)
        }

        @Test("an answer that does not come ends with the time limit, and is completed by the next put")
        func silence() throws {
            try database.store().setup()
            var settings = PostgreSQLObjectStore.Settings()
            settings.statementLimit = .milliseconds(300)
            let proxy = try FaultyProxy(before: database.server) { kind, count in
                kind == "INSERT cipherstore.object" && count == 1 ? .silence : nil
            }
            let store = try database.store(settings: settings, through: proxy.folder)
            defer { withExtendedLifetime(proxy) {} }
            #expect(Make.code { try store.put(1...4) } == .timedOut)
            #expect(try database.store(through: proxy.folder).put(1...4).count == 4)
            try expectAll(1...4)
        }

        @Test("a statement that is given up is ended at the server, too")
        func cancellation() throws {
            var settings = PostgreSQLObjectStore.Settings()
            settings.statementLimit = .milliseconds(500)
            let store = try database.store(settings: settings)
            try store.put([1])
            // A transaction has inserted the same object, and does not end.
            let url = database.url
            let held = Work {
                let connection = try TestDatabase.connect(url)
                let insertion = Statement(
                    """
                    WITH i AS (INSERT INTO cipherstore.object (repo, name, body)
                        VALUES ('\\x\(Make.repository())', '\(Make.name(7))', '') RETURNING 1)
                    SELECT 1::bigint FROM i, pg_sleep(600)
                    """, columns: 1, mostRows: 1, valueBytes: 8)
                return Make.code { try connection.run(insertion, within: .seconds(60)) }
            }
            let holder = try database.first("SELECT pid::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            let put = Work { Make.code { try store.put([7]) } }
            let waiting = """
                SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '\(database.name)'
                """
            let pid = try database.first(waiting)
            #expect(try put.value() == .timedOut)
            // Closing alone would leave the backend waiting: it does not read while it waits for a lock.
            try database.waitUntilIdle(pid)
            _ = try database.texts("SELECT pg_terminate_backend(\(holder))::text")
            #expect(try held.value() == .connectionLost)
            #expect(try store.put([7]) == [.stored])
        }

        /// The commit is durable on the server and waits for a standby that is not there; then the backend is ended.
        @Test("a backend that is terminated in the middle of its commit: the put finds the object that was committed")
        func terminated() throws {
            let server = try PostgresServer()
            let database = try TestDatabase(server)
            try database.store().put([1])
            try database.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            _ = try database.texts("SELECT pg_reload_conf()::text")
            _ = try database.first("SELECT 'set' WHERE current_setting('synchronous_standby_names') = 'nobody'")
            let put = Work { try database.store().put([2]) }
            let waiting = """
                SELECT pid::text FROM pg_stat_activity
                WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO cipherstore.object%'
                """
            let pid = try database.first(waiting)
            #expect(try database.texts("SELECT pg_terminate_backend(\(pid))::text") == ["true"])
            _ = try database.first("SELECT 'gone' WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = \(pid))")
            // It was committed without an answer.
            #expect(try database.objectCount() == 2)
            try database.run("ALTER SYSTEM RESET synchronous_standby_names")
            _ = try database.texts("SELECT pg_reload_conf()::text")
            #expect(try put.value() == [.alreadyPresent])
        }

        @Test("a server that is shut down and started again, or crashes, in the middle of many puts loses nothing")
        func restart() throws {
            let server = try PostgresServer()
            let database = try TestDatabase(server)
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 12
            let (store, done) = (try database.store(settings: settings), Shared(0))
            let puts = Work {
                for number in 1...400 {
                    let outcome = try store.put(Make.name(number), Make.object(number))
                    #expect(outcome == .stored || outcome == .alreadyPresent)
                    done.change { $0 = number }
                }
            }
            for round in 0..<2 {
                #expect(waitUntil(within: .seconds(60)) { done.value >= 100 + 150 * round })
                server.stop(atOnce: round == 1)
                server.start()
            }
            try puts.value()
            #expect(try store.names() == (1...400).map { Make.name($0) })
        }

        @Test("serializable transactions that conflict are repeated until all objects are there")
        func serializable() throws {
            try database.run("ALTER DATABASE \(database.name) SET default_transaction_isolation = 'serializable'")
            _ = try Work.all(5) { [database] number in
                let store = try database.store()
                for step in 0..<10 {
                    try store.put((0..<6).map { number * 30 + step * 6 + $0 })
                    _ = try store.list("")
                }
            }
            try expectAll(0...179)
        }

        @Test("a standby that permits no writing is read, and names itself to a writer")
        func standby() throws {
            try database.store().put(1...3)
            try database.run("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
            let store = try database.store()
            #expect(try store.names().count == 3 && store.get(2) == Make.object(2))
            #expect(Make.code { try store.put([4]) } == .readOnlyServer)
            #expect(Make.code { try store.delete(Make.name(1)) } == .readOnlyServer)
            #expect(try store.names().count == 3)
        }
    }
#endif
