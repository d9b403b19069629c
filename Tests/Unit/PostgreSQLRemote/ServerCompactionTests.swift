#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Testing

    @testable import PostgreSQLRemote

    @Suite("Acknowledgements and removal at a server", .timeLimit(.minutes(3)))
    struct ServerCompactionTests {
        private let database: TestDatabase
        private let remote: PostgreSQLRemote
        private let compaction: any RemoteCompaction

        init() async throws {
            database = try await TestDatabase()
            remote = try database.remote()
            try await remote.setup()
            compaction = try #require(remote.compaction)
        }

        private static func acknowledgement(_ number: UInt8, byteCount: Int = 200) -> RemoteAcknowledgement {
            RemoteAcknowledgement(author: Make.author(number), bytes: Make.bytes(byteCount, seed: UInt64(number) + 1))
        }

        private static func cursor(through sequence: UInt64, of author: AuthorPseudonym = Make.author()) -> RemoteCursor
        {
            var cursor = RemoteCursor()
            for number in 1...sequence { cursor.advance(after: LogPosition(author: author, sequence: number)) }
            return cursor
        }

        private func sequences(_ author: AuthorPseudonym = Make.author()) async throws -> [String] {
            try await database.texts(
                """
                SELECT push_seq::text FROM cipherstore.log AS l WHERE author = decode('\(author)', 'hex')
                ORDER BY l.push_seq
                """)
        }

        private func objectCount() async throws -> Int? {
            Int(try await database.texts("SELECT count(*)::text FROM cipherstore.object")[0])
        }

        // MARK: Acknowledgements

        @Test(
            "an acknowledgement replaces the one before; those of all authors are read, however many and long they are")
        func replacement() async throws {
            #expect(try await compaction.acknowledgements().isEmpty)
            let first = Self.acknowledgement(1)
            try await compaction.acknowledge(first)
            try await compaction.acknowledge(first)
            #expect(try await database.remote().compaction?.acknowledgements() == [first])
            let second = RemoteAcknowledgement(author: first.author, bytes: [])
            try await compaction.acknowledge(second)
            #expect(try await compaction.acknowledgements() == [second])
            try await compaction.acknowledge(first)
            let many = (2...60 as ClosedRange<UInt8>).map {
                Self.acknowledgement($0, byteCount: Limits.acknowledgementBytes)
            }
            for other in many { try await compaction.acknowledge(other) }
            #expect(try await compaction.acknowledgements() == [first] + many)
            // What this library has not written: too long, or under a name of another length.
            try await database.run(
                """
                INSERT INTO cipherstore.acknowledgement VALUES ('\\x\(Make.repository())', '\\x00', '\\x00'),
                    ('\\x\(Make.repository())', '\\xff', '\\x00'),
                    ('\\x\(Make.repository(7))', '\\x\(Make.author(3))', '\\x00')
                """)
            try await database.run(
                """
                UPDATE cipherstore.acknowledgement SET body = decode(repeat('ab', 300000), 'hex')
                WHERE author = decode('\(Make.author(2))', 'hex')
                """)
            let found = try await compaction.acknowledgements()
            #expect(found.count == 60 && found[1].bytes.count == Limits.acknowledgementBytes + 1)
            try await compaction.acknowledge(many[0])
            #expect(try await compaction.acknowledgements() == [first] + many)
        }

        @Test("a thousand and more replicas are read")
        func manyReplicas() async throws {
            let count = PostgreSQLLimits.acknowledgementsAtOnce * 2 + 1
            try await compaction.acknowledge(Self.acknowledgement(0))
            try await database.run(
                """
                INSERT INTO cipherstore.acknowledgement
                SELECT '\\x\(Make.repository())', decode(lpad(to_hex(n), 32, '0'), 'hex'), '\\x01'
                FROM generate_series(2, \(count)) AS n
                """)
            #expect(try await compaction.acknowledgements().count == count)
        }

        /// A statement whose connection was lost waits in its backend, and is executed after later ones.
        @Test("an older acknowledgement never comes back, whenever a lost statement is executed")
        func lateStatement() async throws {
            let all = (1...3 as ClosedRange<UInt8>).map {
                RemoteAcknowledgement(author: Make.author(), bytes: Make.bytes(100, seed: UInt64($0)))
            }
            try await compaction.acknowledge(all[0])
            let lost = RemoteTables.acknowledge(all[1], replacing: all[0].bytes, Make.repository())
            let firstLost = RemoteTables.acknowledge(all[1], replacing: nil, Make.repository())
            for acknowledgement in all.dropFirst() { try await compaction.acknowledge(acknowledgement) }
            for statement in [lost, firstLost] {
                let answer = try await database.admin.rows(statement, within: .seconds(60))
                #expect(answer.rowCount == 0)
            }
            #expect(try await compaction.acknowledgements() == [all[2]])
        }

        // MARK: Removal

        @Test("what is replaced goes, what is needed stays, logs go on, and readers skip nothing")
        func removal() async throws {
            let (loose, kept) = ([Make.object(5000), Make.object(5001)], Make.object(5002))
            let objects = Make.objects(1300)
            let other = Make.objects(3, author: Make.author(1), from: 2000)
            _ = try await remote.put(loose + [kept] + objects)
            _ = try await remote.put(other)
            let needed: Set = [objects[1].id, objects[1199].id, kept.id]
            for _ in 0..<2 {
                try await compaction.delete(
                    (loose + [kept]).map(\.id), through: Self.cursor(through: 1200), except: needed)
                let expected = [kept, objects[1], objects[1199]] + objects[1200...] + other
                #expect(try await objectCount() == expected.count)
                #expect(try await remote.get(expected.map(\.id)).map(\.bytes) == expected.map(\.bytes))
                #expect(try await sequences() == (1200...1300).map(String.init))
                #expect(try await sequences(Make.author(1)) == ["1", "2", "3"])
            }
            let page = try await remote.list(after: Self.cursor(through: 1200), limit: 1000)
            #expect(page.entries.map(\.id) == (other + objects[1200...]).map(\.id) && page.stalled.isEmpty)
            #expect(try await remote.put([Make.object(1301, sequence: 1301)]) == [.stored])
            // Who has not read so far is told so, and gets nothing of what follows.
            let early = try await remote.list(after: RemoteCursor(), limit: 1000)
            #expect(early.entries.map(\.id) == other.map(\.id))
            let first = LogPosition(author: Make.author(), sequence: 1)
            #expect(early.stalled == [RemoteStall(position: first, reason: .entryMissing)])
            let missing = LogPosition(author: Make.author(), sequence: 700)
            #expect(
                await Make.error(RemoteError.self) {
                    try await remote.list(after: Self.cursor(through: 700), limit: 9)
                } == .remoteRewound(remote: remote.name, missing: missing))
        }

        @Test("a log without its last replaced entry, an unknown repository and an empty call remove nothing")
        func nothing() async throws {
            let shared = try database.remote(Make.repository(1), sharedWithOthers: true)
            try await #require(shared.compaction).delete([Make.id(1)], through: Self.cursor(through: 3), except: [])
            let objects = Make.objects(3)
            _ = try await remote.put(objects)
            try await #require(shared.compaction).delete([Make.id(1)], through: Self.cursor(through: 3), except: [])
            try await compaction.delete([], through: Self.cursor(through: 4), except: [])
            try await compaction.delete([], through: RemoteCursor(), except: [])
            #expect(try await Make.listAll(remote).entries.map(\.id) == objects.map(\.id))
        }

        // MARK: Faults

        private static let faults: [FaultyProxy.Fault] = [
            .cutBefore, .cutAfter, .end("57P01"), .report("40001"), .report("40P01"), .report("40003"),
            .reportAfter("40003"), .reportAfter("08007"), .report("53300"),
        ]

        @Test("calls whose statements fail for a moment, or are not acknowledged, are completed by themselves")
        func moments() async throws {
            let objects = Make.objects(1200)
            let first = Self.acknowledgement(1)
            let second = RemoteAcknowledgement(author: first.author, bytes: Make.bytes(100, seed: 77))
            for fault in Self.faults {
                try await database.run(
                    "TRUNCATE cipherstore.repository, cipherstore.object, cipherstore.log, cipherstore.acknowledgement")
                let proxy = try FaultyProxy(before: database.server) { _, count in count == 1 ? fault : nil }
                defer { withExtendedLifetime(proxy) {} }
                let compaction = try #require(database.remote(through: proxy.folder).compaction)
                for acknowledgement in [first, second] {
                    try await compaction.acknowledge(acknowledgement)
                    #expect(try await compaction.acknowledgements() == [acknowledgement], "\(fault)")
                }
                _ = try await remote.put([Make.object(5000)] + objects)
                try await compaction.delete([Make.id(5000)], through: Self.cursor(through: 1100), except: [])
                #expect(try await objectCount() == 100, "\(fault)")
                #expect(try await sequences() == (1100...1200).map(String.init), "\(fault)")
                for kind in [
                    "SELECT cipherstore.acknowledgement", "SELECT cipherstore.repository", "SELECT cipherstore.log",
                    "DELETE cipherstore.object", "DELETE cipherstore.log",
                ] { #expect(proxy.count(kind) >= 2, "\(kind) \(fault)") }
                // What was written and not acknowledged is found, and not written again.
                for kind in ["INSERT cipherstore.acknowledgement", "UPDATE cipherstore.acknowledgement"] {
                    #expect(proxy.count(kind) >= 1, "\(kind) \(fault)")
                }
                #expect(proxy.count("SELECT cipherstore.acknowledgement") >= 5, "\(fault)")
            }
        }

        @Test("a backend that is terminated in the middle of a removal: the call goes on, and removes the rest")
        func terminated() async throws {
            let objects = Make.objects(1200)
            _ = try await remote.put(objects)
            try await database.run("CREATE TABLE gate AS SELECT 700 AS last")
            try await database.run(
                """
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF EXISTS (SELECT 1 FROM gate WHERE last < OLD.push_seq) THEN PERFORM pg_sleep(600); END IF;
                    RETURN OLD; END $$
                """)
            try await database.run(
                "CREATE TRIGGER t BEFORE DELETE ON cipherstore.log FOR EACH ROW EXECUTE FUNCTION slow()")
            let removal = Task { [compaction] in
                try await compaction.delete([], through: Self.cursor(through: 1100), except: [])
            }
            let pid = try await database.first(
                "SELECT pid::text FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = '\(database.name)'")
            // The objects of the second batch are gone, its entries are not.
            #expect(try await objectCount() == 200)
            #expect(try await sequences().first == "501")
            let stalled = try await remote.list(after: Self.cursor(through: 600), limit: 5)
            #expect(stalled.entries.isEmpty && stalled.stalled.count == 1)
            try await database.run("DELETE FROM gate")
            #expect(try await database.texts("SELECT pg_terminate_backend(\(pid))::text") == ["true"])
            try await removal.value
            #expect(try await objectCount() == 100)
            #expect(try await sequences() == (1100...1200).map(String.init))
        }
    }
#endif
