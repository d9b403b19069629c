#if PostgreSQL
    import ChangesetSync
    import Foundation
    import Testing

    @testable import PostgreSQLRemote

    /// A server that answers what it likes: everything is refused with a typed error, in bounded time and memory.
    @Suite("Hostile PostgreSQL servers", .timeLimit(.minutes(2)))
    struct HostileServerTests {
        private var settings: PostgreSQLRemote.Settings {
            var settings = PostgreSQLRemote.Settings()
            settings.attempts = 2
            settings.connectLimit = .seconds(5)
            settings.statementLimit = .seconds(5)
            return settings
        }

        private static let repository = "SELECT cipherstore.repository"
        private static let known = FakeServer.rows(columns: 1, [[FakeServer.number(1)]])

        /// What a statement of another kind than the one in question gets.
        private static func usual(_ kind: String) -> [UInt8] {
            switch kind {
            case "SELECT cipherstore.repository": known
            case "WITH cipherstore.log":
                FakeServer.rows(columns: 2, [[FakeServer.number(1), Make.author().bytes]])
            case "INSERT cipherstore.object": FakeServer.rows(columns: 1, [])
            case "SELECT cipherstore.object": FakeServer.rows(columns: 2, [])
            default:
                Stream.Message("1", []).bytes + Stream.Message("2", []).bytes + Stream.Message("n", []).bytes
                    + Stream.Message("C", Array("INSERT 0 1".utf8) + [0]).bytes
            }
        }

        private func code(
            _ kind: String, _ answer: [UInt8], _ call: (PostgreSQLRemote) async throws -> some Any
        ) async throws -> PostgreSQLError.Code? {
            let server = try FakeServer { asked, _ in asked == kind ? answer : Self.usual(asked) }
            let remote = try server.remote(settings)
            defer { withExtendedLifetime(server) {} }
            return await Make.code { try await call(remote) }
        }

        private func list(_ remote: PostgreSQLRemote) async throws -> RemotePage {
            try await remote.list(after: RemoteCursor(), limit: 10)
        }

        @Test(
            "objects of a wrong identifier or length, too many of them, NULL in all, other columns and texts are refused"
        )
        func objects() async throws {
            let (id, other) = (Make.id(1).bytes, Make.id(2).bytes)
            let long = [UInt8](repeating: 1, count: Limits.envelopeBytes + 2)
            let answers = [
                FakeServer.rows(columns: 2, [[other, [1]]]),
                FakeServer.rows(columns: 2, [[Array(id.dropLast()), [1]]]),
                FakeServer.rows(columns: 2, [[id, [1]], [id, [1]]]), FakeServer.rows(columns: 2, [[nil, [1]]]),
                FakeServer.rows(columns: 2, [[id, nil]]), FakeServer.rows(columns: 2, [[id, long]]),
                FakeServer.rows(columns: 1, [[id]]), FakeServer.rows(columns: 3, [[id, [1], [1]]]),
                FakeServer.rows(columns: 2, [[id, [1]]], format: 0), FakeServer.rows(columns: 0, []),
                Stream.Message("C", Array("SELECT 1".utf8) + [0]).bytes, [],
                Stream.Message("I", []).bytes, Stream.Message("H", [0, 0, 0]).bytes,
                Stream.Message("G", [0, 0, 0]).bytes, Stream.Message("W", [0, 0, 0]).bytes,
                FakeServer.rows(columns: 2, [[id, [1]]]) + FakeServer.rows(columns: 2, [[id, [1]]]),
            ]
            for (number, answer) in answers.enumerated() {
                let code = try await code("SELECT cipherstore.object", answer) { try await $0.get([Make.id(1)]) }
                #expect(code == .invalidAnswer, "answer \(number)")
            }
            // Each of them is possible, and all together are more than was asked for.
            let ids = (0..<30).map { Make.id($0) }
            let whole = [UInt8](repeating: 1, count: Limits.envelopeBytes)
            let much = FakeServer.rows(columns: 2, ids.map { [$0.bytes, whole] })
            let answered = try await code("SELECT cipherstore.object", much) { try await $0.get(ids) }
            #expect(answered == .invalidAnswer)
            let good = try await code("SELECT cipherstore.object", FakeServer.rows(columns: 2, [[id, [1]]])) {
                let found = try await $0.get([Make.id(1)])
                #expect(found.map(\.bytes) == [[1]])
            }
            #expect(good == nil)
        }

        @Test("logs with impossible numbers, in a wrong order, of nobody or too long are refused")
        func logs() async throws {
            let id = Make.id(1).bytes
            func row(_ number: Int64, _ sequence: Int64) -> [[UInt8]?] {
                [FakeServer.number(number), FakeServer.number(sequence), id, FakeServer.number(1)]
            }
            let answers: [[[[UInt8]?]]] = [
                [row(2, 1)], [row(0, 1)], [row(-1, 1)], [row(.max, 1)], [row(1, 0)], [row(1, -5)], [row(1, .min)],
                [row(1, 1), row(1, 1)], [row(1, 1), row(1, 2), row(1, 1)], [row(1, 1), row(2, 2), row(1, 2)],
                (1...13).map { row(1, $0) }, [[nil, FakeServer.number(1), id, nil]], [[[1], [1], id, nil]],
                [[FakeServer.number(1), [0, 0, 1], id, nil]],
            ]
            for (number, rows) in answers.enumerated() {
                let answer = FakeServer.rows(columns: 4, rows)
                let code = try await code("SELECT cipherstore.object", answer, list)
                #expect(code == .invalidAnswer, "answer \(number)")
            }
            let gap = try await code("SELECT cipherstore.object", FakeServer.rows(columns: 4, [row(1, .max)])) {
                let page = try await list($0)
                #expect(page.entries.isEmpty && page.stalled.map(\.reason) == [.entryMissing])
            }
            #expect(gap == nil)
            let authors = FakeServer.rows(
                columns: 2, [[FakeServer.number(1), nil], [FakeServer.number(1), [1, 2]], [nil, nil]])
            #expect(try await code("WITH cipherstore.log", authors, list) == .invalidAnswer)
        }

        @Test("acknowledgements in a wrong order, without bytes or too long are refused, and foreign entries")
        func compaction() async throws {
            func row(_ author: [UInt8]?, _ body: [UInt8]?) -> [[UInt8]?] { [FakeServer.number(1), author, body] }
            let (one, two) = (Make.author(1).bytes, Make.author(2).bytes)
            let long = [UInt8](repeating: 1, count: Limits.acknowledgementBytes + 2)
            let answers = [
                [row(two, [1]), row(one, [1])], [row(one, [1]), row(one, [1])], [row(one, nil)], [row([], [1])],
                [row(one, long)], [[nil, one, [1]]], [row(one, [1])],
            ]
            for (number, rows) in answers.enumerated() {
                let code = try await code(Self.repository, FakeServer.rows(columns: 3, rows)) {
                    try await $0.compaction?.acknowledgements()
                }
                #expect(code == .invalidAnswer, "answer \(number)")
            }
            let good = FakeServer.rows(columns: 3, [row(one, [1]), row(nil, nil)])
            let none = try await code(Self.repository, good) {
                let found = try await $0.compaction?.acknowledgements()
                #expect(found?.map(\.bytes) == [[1]])
            }
            #expect(none == nil)
            let cursor = try #require(RemoteCursor(decoding: [1] + one + [0, 0, 0, 0, 0, 0, 0, 2]))
            let entry = FakeServer.rows(columns: 2, [[FakeServer.number(1), Make.id(1).bytes]])
            let endless = try await code("SELECT cipherstore.log", entry) {
                try await $0.compaction?.delete([], through: cursor, except: [])
            }
            #expect(endless == .invalidAnswer)
        }

        @Test("a put believes no identifier that it has not sent, and no vanishing object")
        func puts() async throws {
            let stored = FakeServer.rows(columns: 1, [[Make.id(1).bytes]])
            let answers = [
                FakeServer.rows(columns: 1, [[Make.id(9).bytes]]), FakeServer.rows(columns: 1, [[[1]]]),
                FakeServer.rows(columns: 1, [[Make.id(1).bytes], [Make.id(1).bytes]]),
                FakeServer.rows(columns: 1, [[nil]]), Self.usual("INSERT cipherstore.log"),
            ]
            for (number, answer) in answers.enumerated() {
                let code = try await code("INSERT cipherstore.object", answer) {
                    try await $0.put([Make.object(1, sequence: 1)])
                }
                #expect(code == .invalidAnswer, "answer \(number)")
            }
            // It says that all were there, and has none.
            let none = FakeServer.rows(columns: 2, [])
            let hidden = try await code("SELECT cipherstore.object", none) {
                try await $0.put([Make.object(1, sequence: 1)])
            }
            #expect(hidden == .contention)
            // Its position is taken, and is free: for ever.
            let server = try FakeServer { kind, _ in
                switch kind {
                case "INSERT cipherstore.object": stored
                case "INSERT cipherstore.log": Stream.Message.error("23505").bytes
                case "SELECT cipherstore.log": FakeServer.rows(columns: 2, [])
                default: Self.usual(kind)
                }
            }
            let remote = try server.remote(settings)
            defer { withExtendedLifetime(server) {} }
            #expect(await Make.code { try await remote.put([Make.object(1, sequence: 1)]) } == .contention)
        }

        @Test("rows, notices and messages without end are cut off by their bytes")
        func floods() async throws {
            let row = FakeServer.rows(columns: 2, [[Make.id(1).bytes, [1]]])
            let header = Array(row.prefix(10 + 1 + 4 + 2 + 2 * 19))
            let body = [UInt8](repeating: 7, count: 1 << 20)
            let messages = [
                Stream.Message("D", [0, 2] + Stream.number(32) + Make.id(1).bytes + Stream.number(1 << 20) + body),
                Stream.Message.error("01000", severity: "NOTICE"),
                Stream.Message("D", [0, 2] + [UInt8](repeating: 255, count: 8)),
                Stream.Message("S", Array("a".utf8) + [0] + body.prefix(20_000) + [0]),
                Stream.Message("A", [0, 0, 0, 1] + Array("channel".utf8) + [0] + body + [0]),
            ]
            for (number, message) in messages.enumerated() {
                let sent = Shared(0)
                let server = try FakeServer { _, client in
                    client.write(header)
                    let notice = Stream.Message("N", message.body)
                    let one = (number == 1 ? notice : message).bytes
                    let many = Array(repeating: one, count: max(1, (1 << 20) / one.count)).flatMap(\.self)
                    // Up to a gigabyte, unless the connection is closed before.
                    for _ in 0..<1024 where !client.write(many) { return nil }
                    sent.change { $0 += 1 }
                    return nil
                }
                var patient = settings
                patient.statementLimit = .seconds(60)
                let remote = try server.remote(patient)
                defer { withExtendedLifetime(server) {} }
                let code = await Make.code { try await remote.get([Make.id(1)]) }
                #expect(code == .invalidAnswer && sent.value == 0, "message \(number)")
            }
        }

        @Test("messages of impossible length or kind, and a greeting that is none, are errors of the connection")
        func messages() async throws {
            let broken: [[UInt8]] = [
                [UInt8(ascii: "D"), 0x7F, 0xFF, 0xFF, 0xFF], [UInt8(ascii: "D"), 0, 0, 0, 0],
                [UInt8(ascii: "D"), 0xFF, 0xFF, 0xFF, 0xFF], [0xEE, 0, 0, 0, 4],
                Stream.Message("T", [0xFF, 0xFF]).bytes, Stream.Message("D", [0, 9]).bytes,
                Stream.Message("E", []).bytes, Stream.Message("E", Array("C".utf8)).bytes,
            ]
            for (number, bytes) in broken.enumerated() {
                let code = try await code("SELECT cipherstore.object", bytes) { try await $0.get([Make.id(1)]) }
                #expect([.connectionLost, .invalidAnswer, .timedOut].contains(code), "message \(number)")
            }
            let greetings: [[UInt8]] = [
                Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), [UInt8](repeating: 0, count: 100),
                Stream.Message("R", [0, 0, 0, 99]).bytes, Stream.Message("R", [0, 0, 0, 10]).bytes,
                Stream.Message("E", Array("SFATAL\0C28P01\0Mno\0\0".utf8)).bytes,
            ]
            for (number, greeting) in greetings.enumerated() {
                let server = try FakeServer(greeting: greeting) { _, _ in nil }
                let remote = try server.remote(settings)
                defer { withExtendedLifetime(server) {} }
                let error = await Make.error(PostgreSQLError.self) { try await remote.get([Make.id(1)]) }
                let code = error?.code
                #expect(
                    code == (number == 4 ? .wrongPassword : .unreachable),
                    "greeting \(number): \(String(describing: error))")
            }
        }

        @Test("a server's words are printed in one line of printable characters, and a SQLSTATE is one")
        func words() async throws {
            let text = "\u{1B}[31mred\r\n" + String(repeating: "ä", count: 5000)
            let fields = Array("SERROR\0C\u{1B}[31m\0M\(text)\0\0".utf8)
            let server = try FakeServer { _, _ in Stream.Message("E", fields).bytes }
            let remote = try server.remote(settings)
            defer { withExtendedLifetime(server) {} }
            let error = await Make.error(PostgreSQLError.self) { try await remote.get([Make.id(1)]) }
            #expect(error?.sqlState == nil && error?.code == .connectionLost)
            let description = error?.description ?? ""
            #expect(description.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } && description.count < 600)
            #expect(description.contains("[31mred"))
        }
    }
#endif
