#if PostgreSQL
    import CipherDatabase
    import Foundation
    import TestKit
    import Testing

    @testable import ChangesetSync
    @testable import PostgreSQLRemote

    /// Stores that exchange commits over a server.
    @Suite("Stores sync over PostgreSQL", .timeLimit(.minutes(5)))
    struct ReplicaOverServerTests {
        private static let sql = "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER)"

        /// A store in memory with its repository.
        private struct Device {
            let queue: DatabaseQueue
            let repository: ChangesetRepository

            init() throws {
                queue = DatabaseQueue()
                try queue.write { try $0.execute(sql: sql) }
                repository = try ChangesetRepository(queue)
            }

            init(invitedBy other: Device, at remote: any ObjectStore) throws {
                queue = DatabaseQueue()
                try queue.write { try $0.execute(sql: sql) }
                let invitation = try other.repository.invite(until: .max)
                try other.sync(remote)
                repository = try .join(queue, invitation, at: remote, remoteName: "r")
            }

            @discardableResult
            func sync(_ remote: any ObjectStore) throws -> ExchangeReport {
                try repository.sync(remote, named: "r").exchange
            }

            func write(_ sql: String) throws { try repository.commit { try $0.execute(sql: sql) } }

            func rows() throws -> [String] {
                try queue.read { db in
                    try String.fetchAll(db, sql: "SELECT id || ' ' || name || ' ' || score FROM player ORDER BY id")
                }
            }

            func tag() throws -> String {
                let store = try repository.store()
                return try Exchange(store, with: NoRemote(), named: "none").tag(ofAuthor: store.keys.id)
            }

            func id() throws -> RepositoryID { try repository.store().repository }
        }

        private struct NoRemote: ObjectStore {
            var description: String { "none" }
            func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { .alreadyPresent }
            func get(_ name: String, limitBytes: Int) throws -> [UInt8]? { nil }
            func list(_ prefix: String) throws -> [ListedObject] { [] }
            func delete(_ name: String) throws {}
        }

        @Test(
            "two stores exchange over a server; one that was emptied is filled again by either, and the report says so")
        func emptied() throws {
            let database = try TestDatabase()
            let a = try Device()
            let remote = try database.store(a.id())
            let b = try Device(invitedBy: a, at: remote)
            try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
            try b.write("INSERT INTO player VALUES (2, 'Bob', 2)")
            for device in [a, b, a] { try device.sync(remote) }
            #expect(try a.rows() == ["1 Ann 1", "2 Bob 2"] && a.rows() == b.rows())
            try database.run("DELETE FROM cipherstore.object")
            try database.run("DELETE FROM cipherstore.repository")
            let report = try b.sync(database.store(b.id()))
            #expect(report.lostCommits == 2 && report.isComplete)
            let c = try Device(invitedBy: a, at: remote)
            try c.sync(remote)
            #expect(try c.rows() == a.rows())
        }

        /// Each device has a role of the server without DELETE.
        private func roles(_ a: Device) throws -> (TestDatabase, one: PostgreSQLObjectStore, two: PostgreSQLObjectStore)
        {
            let database = try TestDatabase(PostgresServer())
            for sql in PostgreSQLObjectStore.setupStatements { try database.run(sql) }
            for role in ["reader", "member"] {
                for sql in [
                    "CREATE ROLE \(role) LOGIN", "GRANT USAGE ON SCHEMA cipherstore TO \(role)",
                    "GRANT SELECT ON ALL TABLES IN SCHEMA cipherstore TO \(role)",
                    "GRANT INSERT ON cipherstore.repository, cipherstore.object TO \(role)",
                ] { try database.run(sql) }
            }
            return (database, try database.store(a.id(), user: "reader"), try database.store(a.id(), user: "member"))
        }

        @Test(
            "a damaged object is replaced by roles without DELETE: the reader complains, and the author puts it again")
        func damaged() throws {
            let a = try Device()
            let (database, one, two) = try roles(a)
            let b = try Device(invitedBy: a, at: one)
            try b.sync(two)
            try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
            try a.sync(one)
            try database.run("UPDATE cipherstore.object SET body = 'xx' WHERE name LIKE 'c/%'")
            #expect(try b.sync(two).damaged.count == 1)
            #expect(try b.rows().isEmpty)
            try a.sync(one)
            let report = try b.sync(two)
            #expect(report.receivedCommits == 1 && report.failures.isEmpty)
            #expect(try b.rows() == ["1 Ann 1"])
            // Neither may delete, and neither fails because of it.
            for device in [(a, one), (b, two)] { #expect(try device.0.sync(device.1).failures.isEmpty) }
        }

        @Test(
            "where each role may write its own log alone, commits of others that the server has lost wait for their author"
        )
        func ownLog() throws {
            let a = try Device()
            let (database, one, two) = try roles(a)
            let b = try Device(invitedBy: a, at: one)
            try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
            try b.write("INSERT INTO player VALUES (2, 'Bob', 2)")
            try a.sync(one)
            for (device, role) in [(a, "reader"), (b, "member")] {
                try database.run(
                    "INSERT INTO cipherstore.writer VALUES ('\\x\(try a.id())', '\(try device.tag())', '\(role)')")
            }
            for device in [(b, two), (a, one)] { #expect(try device.0.sync(device.1).isComplete) }
            #expect(try a.rows() == b.rows() && a.rows().count == 2)
            try database.run("DELETE FROM cipherstore.object WHERE name LIKE 'c/%'")
            let report = try b.sync(two)
            #expect(report.failures.isEmpty && report.unsent == 1 && report.sentCommits == 1 && report.lostCommits == 2)
            #expect(try b.repository.status().remotes[0].problems == [.unsent(commits: 1)])
            #expect(try a.sync(one).isComplete)
            #expect(try b.sync(two).isComplete)
        }

        /// `CIPHERSTORE_OBJECTS`: how many commits there are.
        private static let commitCount =
            ProcessInfo.processInfo.environment["CIPHERSTORE_OBJECTS"].flatMap { Int($0) } ?? 2_000

        @Test("many commits are put and fetched; a dump of them is noise; a sync with nothing new costs two statements")
        func manyCommits() throws {
            let database = try TestDatabase()
            let a = try Device()
            let remote = try database.store(a.id())
            let b = try Device(invitedBy: a, at: remote)
            for number in 0..<Self.commitCount {
                try a.write("INSERT INTO player VALUES (\(number), 'readable \(number)', \(number))")
            }
            let clock = ContinuousClock()
            let putting = try clock.measure { try a.sync(remote) }
            let proxy = try FaultyProxy(before: database.server) { _, _ in nil }
            defer { withExtendedLifetime(proxy) {} }
            let reader = try database.store(a.id(), through: proxy.folder)
            let exchange = try Exchange(b.repository.store(), with: reader, named: "r")
            var received = 0
            let fetching = try clock.measure { received = try b.repository.run(exchange).receivedCommits }
            #expect(received >= Self.commitCount)
            let joining = try clock.measure { _ = try b.repository.join() }
            #expect(try b.rows() == a.rows())
            _ = try b.repository.run(exchange)
            let before = proxy.total
            let nothing = try clock.measure { for _ in 0..<10 { _ = try b.repository.run(exchange) } } / 10
            #expect(proxy.total == before + 10)
            print(
                "\(Self.commitCount) commits: put \(putting), fetched \(fetching), joined \(joining), nothing new \(nothing)"
            )
            let dump = try database.output(of: "pg_dump", ["--data-only", "--table=cipherstore.object"])
            #expect(dump.contains(try a.tag()) && !dump.contains("readable"))
        }
    }
#endif
