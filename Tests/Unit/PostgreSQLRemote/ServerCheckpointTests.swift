#if PostgreSQL
    import CipherDatabase
    import Foundation
    import TestKit
    import Testing

    @testable import ChangesetSync
    @testable import PostgreSQLRemote

    @Suite("Checkpoints at a server", .timeLimit(.minutes(5)))
    struct ServerCheckpointTests {
        @Test("a checkpoint replaces the history at the server; a new store begins with it, one that was away rejoins")
        func replacement() async throws {
            var fleet = try await ServerFleet(3)
            try fleet.insert(0, 1...30)
            try fleet.write(1, "INSERT INTO player VALUES (100, hex(randomblob(600000)), 1)")
            try await fleet.settle()
            try fleet.write(1, "DELETE FROM player WHERE id = 3")
            try await fleet.settle([0, 1])
            let before = try await fleet.objectCount()
            #expect(before >= 35)
            // The third one is away, and has something that nobody else has.
            try fleet.write(2, "UPDATE player SET score = 9 WHERE id = 4")
            let late = try await fleet.repositories[2].authorID()
            try await fleet.managers[0].retire(late)
            let made = try #require(try await fleet.managers[0].checkpoint())
            #expect(made.rowCount == 30 && made.commitCount >= 31)
            // A part, one of three chunks and its own manifest, and the manifest.
            let objects = try await fleet.objectCount()
            #expect(objects == 6)
            #expect(try await fleet.entryCount() <= 3)
            let manager = fleet.managers[2]
            let error = await Make.error(SyncError.self) { try await manager.sync() }
            #expect(error?.code == .baseTooOld)
            #expect(try await manager.rejoin() != nil)
            try await fleet.join()
            try await fleet.settle()
            try fleet.expectEqual()
            #expect(try fleet.texts(3, "SELECT score FROM player WHERE id = 4") == ["9"])
            for manager in fleet.managers { #expect(try manager.status().lastError == nil) }
            // Again, with what came since.
            #expect(try await fleet.managers[3].checkpoint() != nil)
            let later = try await fleet.objectCount()
            #expect(later == 6)
            try await fleet.join()
            try await fleet.settle()
            try fleet.expectEqual()
        }

        @Test(
            "whatever statement of a checkpoint fails, or is executed and not acknowledged, the next calls complete it",
            arguments: [FaultyProxy.Fault.cutBefore, .cutAfter])
        func faults(fault: FaultyProxy.Fault) async throws {
            let database = try await TestDatabase()
            // `make test` lets one statement of eight fail, others each time; `make soak` each.
            let stride = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all" ? 1 : 8
            var (failing, isReached) = (Int.random(in: 0..<stride), true)
            while isReached {
                var fleet = try await ServerFleet(2, database)
                try fleet.insert(0, 1...3)
                try fleet.insert(1, 4...5)
                try await fleet.settle()
                let count = Shared(0)
                let proxy = try FaultyProxy(before: database.server) { [failing] _, _ in
                    var number = 0
                    count.change { (number, $0) = ($0, $0 + 1) }
                    return number == failing ? fault : nil
                }
                defer { withExtendedLifetime(proxy) {} }
                var settings = PostgreSQLRemote.Settings()
                settings.attempts = 1
                let maker = try fleet.manager(0, through: proxy.folder, settings)
                _ = try? await maker.checkpoint()
                isReached = count.value > failing
                // Meanwhile the other one works, and a new one comes.
                try fleet.insert(1, 6...6)
                _ = try? await fleet.managers[1].sync()
                try await fleet.join()
                try fleet.write(0, "UPDATE player SET score = 5 WHERE id = 1")
                try await fleet.settle()
                _ = try await fleet.managers[0].checkpoint()
                try await fleet.join()
                try await fleet.settle()
                try fleet.expectEqual("\(failing)")
                for manager in fleet.managers {
                    let status = try manager.status()
                    #expect(status.stalled == 0 && status.pending == 0 && status.ahead == 0, "\(failing)")
                    #expect(status.quarantined.isEmpty && status.lastError == nil, "\(failing)")
                }
                failing += stride
            }
            #expect(failing > 15)
        }

        @Test("makers at once, whose backends are terminated at random, remove the same and lose nothing")
        func makersAtOnce() async throws {
            let server = try PostgresServer()
            let database = try await TestDatabase(server)
            var fleet = try await ServerFleet(3, database)
            var settings = PostgreSQLRemote.Settings()
            settings.attempts = 30
            for round in 0..<4 {
                for place in 0..<3 {
                    let first = 100 * round + 10 * place
                    try fleet.insert(place, first...(first + 8))
                }
                try await fleet.settle()
                let makers = try (0..<3).map { try fleet.manager($0, through: nil, settings) }
                // A task that is cancelled would close the connection.
                let isDone = Shared(false)
                defer { isDone.change { $0 = true } }
                let killer = Task {
                    while !isDone.value {
                        _ = try await database.texts(
                            """
                            SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
                            WHERE datname = '\(database.name)' AND pid <> pg_backend_pid() AND state <> 'idle'
                                AND random() < 0.01
                            """)
                    }
                }
                let made = try await withThrowingTaskGroup(of: SyncCheckpoint?.self) { group in
                    for maker in makers { group.addTask { try await maker.checkpoint() } }
                    return try await group.reduce(into: 0) { $0 += $1 == nil ? 0 : 1 }
                }
                isDone.change { $0 = true }
                try await killer.value
                #expect(made >= 1, "\(round)")
                #expect(try await fleet.objectCount() == 2, "\(round)")
                try await fleet.settle()
                try fleet.expectEqual("\(round)")
            }
            try await fleet.join()
            try await fleet.settle()
            try fleet.expectEqual()
        }

        @Test("a new store that reads the logs while a checkpoint removes them begins with the checkpoint instead")
        func pagingFetcher() async throws {
            var fleet = try await ServerFleet(2)
            try fleet.insert(0, 1...300)
            try await fleet.settle()
            try await fleet.join()
            let (maker, isMade) = (fleet.managers[0], Shared(false))
            let hooked = HookedRemote(base: try fleet.remote(), name: maker.remote.name) { cursor in
                guard cursor != RemoteCursor(), !isMade.value else { return }
                isMade.change { $0 = true }
                let made = try await maker.checkpoint()
                #expect(made != nil)
            }
            let reader = SyncManager(fleet.repositories[2], remote: hooked)
            try await reader.setup()
            try await reader.sync()
            #expect(isMade.value)
            try await fleet.settle()
            try fleet.expectEqual()
            #expect(try reader.status().isInSync)
        }
    }

    /// A remote under the name of another one, that calls a test before it lists.
    private struct HookedRemote: SyncRemote, RemoteCompaction {
        let base: PostgreSQLRemote
        let name: String
        var beforeList: @Sendable (RemoteCursor) async throws -> Void = { _ in }

        var repository: RepositoryID { base.repository }
        var compaction: (any RemoteCompaction)? { self }

        func put(_ objects: [RemoteObject]) async throws -> [PutResult] { try await base.put(objects) }
        func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
            try await beforeList(cursor)
            return try await base.list(after: cursor, limit: limit)
        }
        func get(_ ids: [ObjectID]) async throws -> [RemoteObject] { try await base.get(ids) }
        func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws {
            try await base.acknowledge(acknowledgement)
        }
        func acknowledgements() async throws -> [RemoteAcknowledgement] { try await base.acknowledgements() }
        func delete(_ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>) async throws {
            try await base.delete(objects, through: cursor, except: needed)
        }
    }

    /// Some stores of one repository, and the server by which they exchange commits.
    private struct ServerFleet {
        let database: TestDatabase
        let key: RepositoryKey
        private(set) var repositories: [ChangesetRepository] = []
        private(set) var managers: [SyncManager] = []

        init(_ count: Int, _ database: TestDatabase? = nil) async throws {
            self.database = if let database { database } else { try await TestDatabase() }
            key = try RepositoryKey.random()
            for _ in 0..<count { try await join() }
        }

        func remote(
            through host: String? = nil, _ settings: PostgreSQLRemote.Settings = .init()
        ) throws -> PostgreSQLRemote {
            try database.remote(key.repository, settings: settings, sharedWithOthers: true, through: host)
        }

        /// One more store, without rows.
        mutating func join() async throws {
            let queue = DatabaseQueue()
            try await queue.write {
                try $0.execute(sql: "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER)")
            }
            let repository = ChangesetRepository(queue)
            try repository.migrate()
            try repository.enable(["player"], key: key)
            repositories.append(repository)
            let remote = try remote()
            try await remote.setup()
            let manager = SyncManager(repository, remote: remote)
            try await manager.setup()
            managers.append(manager)
        }

        /// Another manager of a store, which takes its remote for the same.
        func manager(
            _ place: Int, through host: String?, _ settings: PostgreSQLRemote.Settings
        ) throws -> SyncManager {
            let other = HookedRemote(base: try remote(through: host, settings), name: managers[place].remote.name)
            return SyncManager(repositories[place], remote: other)
        }

        func settle(_ places: [Int]? = nil) async throws {
            for _ in 0..<3 {
                for place in places ?? Array(managers.indices) { try await managers[place].sync() }
            }
        }

        func insert(_ place: Int, _ ids: ClosedRange<Int>) throws {
            for id in ids { try write(place, "INSERT INTO player VALUES (\(id), 'p\(id)', \(place))") }
        }

        func write(_ place: Int, _ sql: String) throws {
            try repositories[place].commit { try $0.execute(sql: sql) }
        }

        func texts(_ place: Int, _ sql: String) throws -> [String] {
            try repositories[place].writer.read { db in
                try Row.fetchAll(db, sql: sql).map { $0.databaseValues.map(\.description).joined(separator: ",") }
            }
        }

        func expectEqual(_ name: Comment = "") throws {
            let sql = "SELECT * FROM player ORDER BY id"
            let (rows, head) = (try texts(0, sql), try repositories[0].summary().head)
            #expect(!rows.isEmpty && head != nil, name)
            for place in repositories.indices {
                #expect(try texts(place, sql) == rows && repositories[place].summary().head == head, name)
                #expect(try repositories[place].verify().isEmpty, name)
            }
        }

        private func count(_ table: String) async throws -> Int {
            let found = try await database.texts(
                "SELECT count(*)::text FROM cipherstore.\(table) WHERE repo = decode('\(key.repository)', 'hex')")
            return Int(found[0]) ?? -1
        }

        func objectCount() async throws -> Int { try await count("object") }
        func entryCount() async throws -> Int { try await count("log") }
    }

    extension ChangesetRepository {
        fileprivate func authorID() async throws -> AuthorID {
            try await writer.read { try RepositoryState($0).author }
        }
    }
#endif
