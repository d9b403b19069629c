#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Testing

    @testable import PostgreSQLRemote

    /// What may happen between a replica and its server, and what is in the tables afterwards.
    @Suite("PostgreSQL remotes under faults", .timeLimit(.minutes(3)))
    struct PostgreSQLFaultTests {
        private let database: TestDatabase

        init() async throws {
            database = try await TestDatabase()
            try await database.remote().setup()
        }

        /// What the tables have is what was put: each object once, each log without a gap.
        private func expectAll(_ count: Int) async throws {
            let remote = try database.remote()
            let (entries, _) = try await Make.listAll(remote)
            #expect(entries.map(\.position.sequence) == (0..<count).map { UInt64($0 + 1) })
            #expect(entries.map(\.id) == (0..<count).map { Make.id($0 + 1) })
            let found = try await remote.get(entries.map(\.id))
            #expect(found.map(\.bytes) == Make.objects(count).map(\.bytes))
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.object") == ["\(count)"])
        }

        private static let statements = [
            "SELECT cipherstore.repository", "INSERT cipherstore.repository", "INSERT cipherstore.object",
            "INSERT cipherstore.log",
        ]

        private static let faults: [FaultyProxy.Fault] = [
            .cutBefore, .cutAfter, .end("57P01"), .end("57P02"), .report("40001"), .report("40P01"), .report("40003"),
            .reportAfter("40003"), .report("08006"), .reportAfter("08007"), .report("57P03"), .report("53300"),
        ]

        @Test(
            "a put whose statement fails for a moment, or whose commit is not acknowledged, is completed by itself",
            arguments: statements)
        func moments(statement: String) async throws {
            for fault in Self.faults {
                try await database.run("TRUNCATE cipherstore.repository, cipherstore.object, cipherstore.log")
                let proxy = try FaultyProxy(before: database.server) { kind, count in
                    kind == statement && count == 1 ? fault : nil
                }
                let remote = try database.remote(through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                let results = try await remote.put(Make.objects(20))
                #expect(results.allSatisfy { $0 == .stored || $0 == .alreadyPresent }, "\(fault)")
                // A repository that was registered is found, and not registered again.
                #expect(proxy.count(statement) + proxy.count(Self.statements[0]) >= 3, "\(fault)")
                try await expectAll(20)
            }
        }

        @Test("lists and gets are repeated after a lost connection and after a serialization failure")
        func reading() async throws {
            let objects = Make.objects(20)
            _ = try await database.remote().put(objects)
            for fault in Self.faults {
                let proxy = try FaultyProxy(before: database.server) { _, count in count == 1 ? fault : nil }
                let remote = try database.remote(through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                #expect(try await Make.listAll(remote).entries.count == 20, "\(fault)")
                #expect(try await remote.get(objects.map(\.id)).map(\.bytes) == objects.map(\.bytes), "\(fault)")
            }
        }

        @Test("what fails again and again is reported, and the same put completes when the cause is gone")
        func persistent() async throws {
            var settings = PostgreSQLRemote.Settings()
            settings.attempts = 3
            let cases: [(FaultyProxy.Fault, PostgreSQLError.Code, Int)] = [
                (.cutBefore, .connectionLost, 3), (.cutAfter, .connectionLost, 3), (.report("40001"), .contention, 3),
                (.report("53300"), .tooManyConnections, 3), (.report("53100"), .diskFull, 1),
                (.report("25006"), .readOnlyServer, 1), (.report("42501"), .missingRights, 1),
                (.report("XX001"), .serverError, 1),
            ]
            for (fault, code, attempts) in cases {
                let proxy = try FaultyProxy(before: database.server) { kind, _ in
                    kind == "INSERT cipherstore.log" ? fault : nil
                }
                let remote = try database.remote(settings: settings, through: proxy.folder)
                defer { withExtendedLifetime(proxy) {} }
                #expect(await Make.code { try await remote.put(Make.objects(3)) } == code)
                #expect(proxy.count("INSERT cipherstore.log") == attempts)
            }
            _ = try await database.remote().put(Make.objects(3))
            try await expectAll(3)
        }

        /// A later part of a put was entered after a gap then, which no later put would have noticed.
        @Test("a server that has lost its tables in the middle of a long put gets nothing that would leave a gap")
        func restoredBackup() async throws {
            let objects = Make.objects(1200)
            let proxy = try FaultyProxy(before: database.server) { [database] kind, count in
                guard kind == "INSERT cipherstore.object", count == 2 else { return nil }
                _ = try? database.output(of: "psql", ["-q", "-c", "DELETE FROM cipherstore.log WHERE push_seq > 400"])
                return .cutBefore
            }
            let remote = try database.remote(through: proxy.folder)
            defer { withExtendedLifetime(proxy) {} }
            let missing = LogPosition(author: Make.author(), sequence: UInt64(PostgreSQLLimits.objectsAtOnce))
            let error = await Make.error(RemoteError.self) { try await remote.put(objects) }
            #expect(error == .remoteRewound(remote: remote.name, missing: missing))
            #expect(try await Make.listAll(remote).entries.count == 400)
            let numbers = try await database.texts("SELECT max(push_seq)::text FROM cipherstore.log")
            #expect(numbers == ["400"])
        }

        @Test("an answer that does not come ends with the time limit, and is completed by the next put")
        func silence() async throws {
            var settings = PostgreSQLRemote.Settings()
            settings.statementLimit = .milliseconds(300)
            let proxy = try FaultyProxy(before: database.server) { kind, count in
                kind == "INSERT cipherstore.log" && count == 1 ? .silence : nil
            }
            let remote = try database.remote(settings: settings, through: proxy.folder)
            defer { withExtendedLifetime(proxy) {} }
            #expect(await Make.code { try await remote.put(Make.objects(4)) } == .timedOut)
            settings.statementLimit = .seconds(60)
            _ = try await database.remote(settings: settings, through: proxy.folder).put(Make.objects(4))
            try await expectAll(4)
        }

        /// The commit is durable on the server and waits for a standby that is not there; then the backend is ended.
        @Test(
            "a backend that is terminated in the middle of its commit: the put finds what was committed, and goes on",
            arguments: ["object", "log"])
        func terminated(table: String) async throws {
            let server = try PostgresServer()
            let database = try await TestDatabase(server)
            try await database.remote().setup()
            _ = try await database.remote().put(Make.objects(1))
            // The first statement of the put passes, the second one is stopped in its commit.
            if table == "log" { _ = try await database.remote().put(Make.objects(10).map(\.withoutPosition)) }
            try await database.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            _ = try await database.texts("SELECT pg_reload_conf()::text")
            _ = try await database.first(
                "SELECT 'set' WHERE current_setting('synchronous_standby_names') = 'nobody'")
            let put = Task { try await database.remote().put(Make.objects(10)) }
            let waiting = """
                SELECT pid::text FROM pg_stat_activity
                WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO cipherstore.\(table)%'
                """
            let pid = try await database.first(waiting)
            #expect(try await database.texts("SELECT pg_terminate_backend(\(pid))::text") == ["true"])
            _ = try await database.first(
                "SELECT 'gone' WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = \(pid))")
            // It was committed, although nobody was told.
            let expected = table == "log" ? 10 : 1
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.object") == ["10"])
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.log") == ["\(expected)"])
            try await database.run("ALTER SYSTEM RESET synchronous_standby_names")
            _ = try await database.texts("SELECT pg_reload_conf()::text")
            #expect(try await put.value == Array(repeating: .alreadyPresent, count: 10))
            let (entries, _) = try await Make.listAll(database.remote())
            #expect(entries.map(\.id) == (1...10).map { Make.id($0) })
        }

        @Test("a server that is shut down and started again, or crashes, in the middle of many puts loses nothing")
        func restart() async throws {
            let server = try PostgresServer()
            let database = try await TestDatabase(server)
            var settings = PostgreSQLRemote.Settings()
            settings.attempts = 12
            let remote = try database.remote(settings: settings)
            try await remote.setup()
            let (done, isDone) = AsyncStream.makeStream(of: Int.self)
            let puts = Task {
                defer { isDone.finish() }
                for number in 0..<60 {
                    let part = Array(Make.objects(600)[(number * 10)..<(number * 10 + 10)])
                    let results = try await remote.put(part)
                    #expect(results.allSatisfy { $0 == .stored || $0 == .alreadyPresent })
                    isDone.yield(number)
                }
            }
            var numbers = done.makeAsyncIterator()
            for round in 0..<2 {
                while let number = await numbers.next(), number < 15 + 20 * round {}
                server.stop(atOnce: round == 1)
                server.start()
            }
            try await puts.value
            let entries = try await Make.listAll(remote).entries
            #expect(entries.map(\.id) == (1...600).map { Make.id($0) })
        }

        @Test("serializable transactions that conflict are repeated until all is there")
        func serializable() async throws {
            try await database.run("ALTER DATABASE \(database.name) SET default_transaction_isolation = 'serializable'")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for author in (1...5 as ClosedRange<UInt8>).map({ Make.author($0 * 20) }) {
                    group.addTask { [database] in
                        let remote = try database.remote()
                        let objects = Make.objects(60, author: author)
                        for start in stride(from: 0, to: 60, by: 6) {
                            _ = try await remote.put(Array(objects[start..<(start + 6)]))
                            _ = try await remote.list(after: RemoteCursor(), limit: 1000)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await Make.listAll(database.remote()).entries.count == 300)
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.object") == ["60"])
        }

        @Test("a put that is cancelled while the server makes it wait ends at once, and nothing is left waiting there")
        func cancellation() async throws {
            // A transaction that has inserted the same object, and does not end.
            let blocker = try await TestDatabase.connect(database.url)
            let insertion = Statement(
                """
                WITH i AS (INSERT INTO cipherstore.object VALUES ('\\x\(Make.repository())', '\\x\(Make.id(7))', '\\x00')
                    RETURNING 1)
                SELECT pg_sleep(600) FROM i
                """, columns: 1, mostRows: 1)
            let held = Task { try await blocker.run(insertion, within: .seconds(600)) }
            _ = try await database.first("SELECT 'held' FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            var settings = PostgreSQLRemote.Settings()
            settings.connections = 1
            let remote = try database.remote(settings: settings)
            let put = Task { try await remote.put([Make.object(7)]) }
            let waiting = "SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            let pid = try await database.first(waiting)
            let began = ContinuousClock.now
            put.cancel()
            let error = await Make.error(CancellationError.self) { try await put.value }
            #expect(error != nil && ContinuousClock.now - began < .seconds(20))
            // Closing alone would leave the backend waiting: it does not read while it waits for a lock.
            _ = try await database.first(
                "SELECT 'gone' WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = \(pid))")
            held.cancel()
            #expect(try await remote.put([Make.object(7)]) == [.stored])
            let cancelled = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await remote.list(after: RemoteCursor(), limit: 1)
            }
            #expect(await Make.error(CancellationError.self) { try await cancelled.value } != nil)
            #expect(try await remote.get([Make.id(7)]).count == 1)
        }
    }

    extension RemoteObject {
        fileprivate var withoutPosition: RemoteObject {
            RemoteObject(repository: repository, id: id, position: nil, bytes: bytes)
        }
    }
#endif
