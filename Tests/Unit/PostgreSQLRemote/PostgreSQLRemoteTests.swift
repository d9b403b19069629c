#if PostgreSQL
    import ChangesetSync
    import Foundation
    import Testing

    @testable import PostgreSQLRemote

    @Suite("PostgreSQL as a remote", .timeLimit(.minutes(3)))
    struct PostgreSQLRemoteTests {
        private let database: TestDatabase
        private let remote: PostgreSQLRemote

        init() async throws {
            database = try await TestDatabase()
            remote = try database.remote()
            try await remote.setup()
        }

        @Test("what one replica has put, another lists and gets; putting it again changes nothing")
        func exchange() async throws {
            let objects = Make.objects(3) + [Make.object(9)]
            #expect(try await remote.put(objects) == [.stored, .stored, .stored, .stored])
            #expect(try await remote.put(objects) == Array(repeating: .alreadyPresent, count: 4))
            let page = try await database.remote().list(after: RemoteCursor(), limit: 10)
            #expect(page.entries == objects.prefix(3).map { RemoteEntry(id: $0.id, position: $0.position!) })
            #expect(!page.hasMore && page.stalled.isEmpty && page.next.sequence(of: Make.author()) == 3)
            let again = try await remote.list(after: page.next, limit: 10)
            #expect(again.entries.isEmpty && again.next == page.next && !again.hasMore)
            let wanted = [objects[3].id, Make.id(77), objects[0].id, objects[3].id]
            let found = try await remote.get(wanted)
            #expect(found.map(\.id) == [objects[3].id, objects[0].id, objects[3].id])
            #expect(found.map(\.bytes) == [objects[3].bytes, objects[0].bytes, objects[3].bytes])
            #expect(found.allSatisfy { $0.position == nil })
            #expect(try await remote.put([]).isEmpty)
            #expect(remote.name == "postgresql:///\(database.name)?host=\(database.server.folder)")
        }

        /// A server that has analysed its tables before a repository came takes it for one of a single row.
        @Test("objects are looked up one by one, whatever the statistics of the server say of the repository")
        func plan() async throws {
            let other = Make.repository(0x10)
            _ = try await database.remote(other, sharedWithOthers: true).put(Make.objects(3_000, repository: other))
            try await database.run("ANALYZE")
            _ = try await database.remote(sharedWithOthers: true).put(Make.objects(3_000))
            let wanted = RemoteTables.objects((1...20).map { Make.id($0 * 100) }, Make.repository())
            let explanation = Statement(
                "EXPLAIN (ANALYZE) " + wanted.sql, wanted.values, columns: 1, mostRows: 100, valueBytes: 100_000)
            let answer = try await database.admin.rows(explanation, within: .seconds(60))
            let lines = (0..<answer.rowCount).map { String(decoding: answer.bytes($0, 0) ?? [], as: UTF8.self) }
            #expect(lines.contains { $0.contains("object_pkey") })
            #expect(!lines.contains { $0.contains("Rows Removed") || $0.contains("Seq Scan") }, "\(lines)")
        }

        @Test("two replicas push the same merge: it is one object, in the logs of both")
        func sameObject() async throws {
            let merge = Make.object(5, author: Make.author(1), sequence: 1)
            let same = RemoteObject(
                repository: merge.repository, id: merge.id,
                position: LogPosition(author: Make.author(2), sequence: 1), bytes: merge.bytes)
            #expect(try await remote.put([merge]) == [.stored])
            #expect(try await remote.put([same]) == [.alreadyPresent])
            let entries = try await Make.listAll(remote).entries
            #expect(entries.map(\.position.author) == [Make.author(1), Make.author(2)])
            #expect(Set(entries.map(\.id)) == [merge.id])
        }

        @Test("another content under an identifier is a collision that changes nothing, and what follows is in no log")
        func objectCollision() async throws {
            let objects = Make.objects(4)
            _ = try await remote.put(Array(objects.prefix(2)))
            let forged = Make.object(9, sequence: 3)
            _ = try await remote.put([Make.object(9, bytes: [1, 2, 3])])
            let results = try await remote.put([objects[1], forged, objects[3]])
            #expect(results == [.alreadyPresent, .collision(.object)])
            #expect(try await remote.get([forged.id]).first?.bytes == [1, 2, 3])
            #expect(try await Make.listAll(remote).entries.map(\.id) == objects.prefix(2).map(\.id))
            let twice = [Make.object(20, bytes: [1]), Make.object(20, bytes: [1]), Make.object(20, bytes: [2])]
            #expect(try await remote.put(twice) == [.stored, .alreadyPresent, .collision(.object)])
        }

        /// Two copies of a store push under one name. With `ON CONFLICT DO NOTHING` the second one's later entries would stand
        /// in the log after an entry that is not theirs.
        @Test("another object at a position is a collision: neither it nor what follows it gets into the log")
        func positionCollision() async throws {
            let objects = Make.objects(3)
            _ = try await remote.put(objects)
            let copied = [
                objects[1], Make.object(50, sequence: 3), Make.object(51, sequence: 4), Make.object(52, sequence: 5),
            ]
            #expect(try await remote.put(copied) == [.alreadyPresent, .collision(.position)])
            let entries = try await Make.listAll(remote).entries
            #expect(entries.map(\.id) == objects.map(\.id))
            // Part of the entries is there: the rest is added.
            let rest = Make.objects(5)
            #expect(try await remote.put(rest).prefix(3) == [.alreadyPresent, .alreadyPresent, .alreadyPresent])
            #expect(try await Make.listAll(remote).entries.map(\.id) == rest.map(\.id))
        }

        @Test("after a collision, later parts of a long put are not written")
        func collisionInLongPut() async throws {
            let objects = Make.objects(1300)
            _ = try await remote.put([objects[0], Make.object(5000, bytes: [1])])
            let forged = Make.object(5000, sequence: 11)
            let results = try await remote.put(Array(objects[0..<10]) + [forged] + objects[11...])
            #expect(results.count == 11 && results.last == .collision(.object))
            let entries = try await Make.listAll(remote).entries
            #expect(entries.map(\.id) == objects.prefix(10).map(\.id))
            let count = try await database.texts("SELECT count(*)::text FROM cipherstore.object")
            #expect(Int(count[0])! < 600)
        }

        @Test(
            "objects of another repository, too long ones and positions with gaps are refused before anything is written"
        )
        func refused() async throws {
            let foreign = Make.object(1, repository: Make.repository(1))
            #expect(
                await Make.error(RemoteError.self) { try await remote.put([foreign]) }
                    == .otherRepository(remote: remote.name, found: [Make.repository(1)]))
            let long = Make.object(1, sequence: 1, bytes: [UInt8](repeating: 0, count: Limits.envelopeBytes + 1))
            #expect(
                await Make.error(RemoteError.self) { try await remote.put([long]) }
                    == .payloadTooLarge(long.id, byteCount: Limits.envelopeBytes + 1, limit: Limits.envelopeBytes))
            for sequence in [0, 3, UInt64(Int64.max) + 1] {
                let objects = [Make.object(1, sequence: 1), Make.object(2, sequence: sequence)]
                let error = await Make.error(RemoteError.self) { try await remote.put(objects) }
                #expect(error == .invalidPosition(objects[1].position!))
            }
            let high = Make.object(1, sequence: UInt64(Int64.max) + 1)
            let error = await Make.error(RemoteError.self) { try await remote.put([high]) }
            #expect(error == .invalidPosition(high.position!))
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.object") == ["0"])
        }

        @Test(
            "a log that lacks what was acknowledged is a rewound remote: for its author before it writes, and for readers"
        )
        func rewound() async throws {
            let objects = Make.objects(5)
            let missing = LogPosition(author: Make.author(), sequence: 3)
            let error = RemoteError.remoteRewound(remote: remote.name, missing: missing)
            #expect(await Make.error(RemoteError.self) { try await remote.put([objects[3]]) } == error)
            _ = try await remote.put(objects)
            let page = try await remote.list(after: RemoteCursor(), limit: 3)
            #expect(page.hasMore && page.next.sequence(of: Make.author()) == 3)
            try await database.run("DELETE FROM cipherstore.log WHERE push_seq >= 3")
            #expect(await Make.error(RemoteError.self) { try await remote.put([objects[3]]) } == error)
            #expect(await Make.error(RemoteError.self) { try await remote.list(after: page.next, limit: 9) } == error)
            try await database.run("DELETE FROM cipherstore.log")
            #expect(await Make.error(RemoteError.self) { try await remote.list(after: page.next, limit: 9) } == error)
            var far = RemoteCursor()
            far = RemoteCursor(decoding: [1] + Make.author().bytes + [UInt8](repeating: 0xFF, count: 8))!
            let last = LogPosition(author: Make.author(), sequence: .max)
            #expect(
                await Make.error(RemoteError.self) { try await remote.list(after: far, limit: 9) }
                    == .remoteRewound(remote: remote.name, missing: last))
        }

        @Test("a missing entry, a damaged one and one whose object is missing end the log of their author for now")
        func stalls() async throws {
            for author in 1...4 as ClosedRange<UInt8> {
                _ = try await remote.put(Make.objects(4, author: Make.author(author), from: 10 * Int(author)))
            }
            func name(_ author: UInt8) -> String { Make.author(author).description }
            for sql in [
                "DELETE FROM cipherstore.log WHERE author = '\\x\(name(1))' AND push_seq = 2",
                "UPDATE cipherstore.log SET id = '\\x00' WHERE author = '\\x\(name(2))' AND push_seq = 3",
                "DELETE FROM cipherstore.object WHERE id = '\\x\(Make.id(30))'",
                "INSERT INTO cipherstore.log SELECT repo, '\\x01', 1, id FROM cipherstore.log LIMIT 1",
            ] { try await database.run(sql) }
            let page = try await remote.list(after: RemoteCursor(), limit: 100)
            func stall(_ author: UInt8, _ sequence: UInt64, _ reason: RemoteStall.Reason) -> RemoteStall {
                RemoteStall(position: LogPosition(author: Make.author(author), sequence: sequence), reason: reason)
            }
            #expect(
                page.stalled == [
                    stall(1, 2, .entryMissing), stall(2, 3, .entryDamaged), stall(3, 1, .objectMissing(Make.id(30))),
                ])
            #expect(page.entries.map(\.id) == [10, 20, 21, 40, 41, 42, 43].map { Make.id($0) })
            #expect(!page.hasMore)
        }

        @Test("a page is shared fairly, filled when only one author has more, and nothing is skipped or listed twice")
        func pages() async throws {
            let counts: [UInt8: Int] = [1: 300, 2: 1, 3: 40, 4: 0, 5: 7]
            for (author, count) in counts where count > 0 {
                _ = try await remote.put(Make.objects(count, author: Make.author(author), from: 1000 * Int(author)))
            }
            let first = try await remote.list(after: RemoteCursor(), limit: 40)
            #expect(first.entries.count == 40 && first.hasMore)
            #expect(first.next.sequence(of: Make.author(2)) == 1 && first.next.sequence(of: Make.author(5)) == 7)
            for limit in [1, 2, 3, 7, 40, 299, 348, 349, 1000] {
                let (entries, pages) = try await Make.listAll(remote, limit: limit)
                #expect(entries.count == 348 && Set(entries).count == 348)
                for (author, count) in counts {
                    let own = entries.filter { $0.position.author == Make.author(author) }
                    #expect(own.map(\.position.sequence) == (0..<count).map { UInt64($0 + 1) })
                }
                // Full pages, but for what the last rounds of one could not take.
                #expect(pages <= 348 / limit * 5 / 4 + 2)
            }
        }

        /// Four rounds of a page asked for 256 logs each. Where these had nothing new, the page was empty, and the rest of the
        /// logs was never read.
        @Test("a page looks at every log before it says that there is nothing new, and takes a few of many")
        func manyLogs() async throws {
            let count = (PostgreSQLLimits.roundsOfPage + 1) * PostgreSQLLimits.authorsAtOnce
            _ = try await remote.put([Make.object(1)])
            let author = "decode(lpad(to_hex(n), 32, '0'), 'hex')"
            try await database.run(
                """
                INSERT INTO cipherstore.log SELECT '\\x\(Make.repository())', \(author), 1, '\\x\(Make.id(1))'
                FROM generate_series(1, \(count)) AS n
                """)
            // Each page asks about all logs once more, so the pages are long.
            let (entries, _) = try await Make.listAll(remote, limit: 2_000)
            #expect(entries.count == count && Set(entries.map(\.position.author)).count == count)
            var cursor = RemoteCursor()
            for entry in entries { cursor.advance(after: entry.position) }
            #expect(try await !remote.list(after: cursor, limit: 256).hasMore)
            let last = try #require(AuthorPseudonym(bytes: Array(repeating: 0xFF, count: 16)))
            _ = try await remote.put([Make.object(2, author: last, sequence: 1)])
            let page = try await remote.list(after: cursor, limit: 256)
            #expect(page.entries.map(\.id) == [Make.id(2)] && !page.hasMore)
            let first = try await remote.list(after: RemoteCursor(), limit: 10)
            #expect(first.entries.count == 10 && first.hasMore)
        }

        @Test("many writers at once, some of the same objects, lose nothing")
        func crowd() async throws {
            let authors = (0..<6).map { Make.author(UInt8($0 * 16)) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for author in authors {
                    group.addTask { [database] in
                        let own = try database.remote()
                        let objects = Make.objects(60, author: author)
                        for part in [objects[0..<20], objects[20..<60]] {
                            let results = try await own.put(Array(part))
                            #expect(results.allSatisfy { $0 == .stored || $0 == .alreadyPresent })
                        }
                    }
                }
                try await group.waitForAll()
            }
            let entries = try await Make.listAll(remote, limit: 50).entries
            #expect(entries.count == 360)
            for author in authors {
                let own = entries.filter { $0.position.author == author }
                #expect(own.map(\.position.sequence) == Array(1...60) && own.map(\.id) == (1...60).map { Make.id($0) })
            }
            #expect(try await database.texts("SELECT count(*)::text FROM cipherstore.object") == ["60"])
        }

        @Test("long objects come back whole, in answers of bounded length; one that is too long is truncated")
        func longObjects() async throws {
            let objects = (0..<40).map {
                Make.object($0, bytes: Make.bytes(Limits.envelopeBytes, seed: UInt64($0 + 1)))
            }
            #expect(ObjectWriter.batches(of: objects).count > 5)
            #expect(try await remote.put(objects) == Array(repeating: .stored, count: 40))
            #expect(try await remote.put(objects) == Array(repeating: .alreadyPresent, count: 40))
            let found = try await remote.get(objects.map(\.id))
            #expect(found.map(\.bytes) == objects.map(\.bytes))
            try await database.run(
                "UPDATE cipherstore.object SET body = body || body WHERE id = '\\x\(objects[3].id)'")
            #expect(try await remote.get([objects[3].id]).first?.bytes.count == Limits.envelopeBytes + 1)
        }

        @Test("empty objects, and thousands of identifiers, are read")
        func manyIdentifiers() async throws {
            let objects = [Make.object(0, bytes: [])] + Make.objects(4500)
            #expect(try await remote.put(objects).allSatisfy { $0 == .stored })
            let found = try await remote.get((0...5000).map { Make.id($0) })
            #expect(found.map(\.bytes) == objects.map(\.bytes))
        }
    }
#endif
