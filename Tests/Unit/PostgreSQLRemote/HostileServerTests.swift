#if PostgreSQL
    import ChangesetSync
    import Foundation
    import Testing

    @testable import PostgreSQLRemote

    /// A server that answers as a test wants: every wrong answer is a typed error, in bounded time and memory.
    @Suite("Hostile PostgreSQL servers", .timeLimit(.minutes(2)))
    struct HostileServerTests {
        private var settings: PostgreSQLObjectStore.Settings {
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 2
            settings.connectLimit = .seconds(5)
            settings.statementLimit = .seconds(5)
            return settings
        }

        private static let listing = "SELECT cipherstore.repository"
        private static let summary: [[UInt8]?] = summary()

        private static func summary(
            layout: Int64? = 2, count: Int64 = 0, fingerprint: Int64 = 0, position: Int64 = 1
        ) -> [[UInt8]?] {
            [
                layout.map(FakeServer.number), FakeServer.number(count), FakeServer.number(fingerprint),
                FakeServer.number(position), nil,
            ]
        }

        private static func entry(_ name: String, _ mark: Int64 = 1) -> [[UInt8]?] {
            [FakeServer.number(mark), nil, nil, nil, Array(name.utf8)]
        }

        private func code(
            _ kind: String, _ answer: [UInt8], _ call: (PostgreSQLObjectStore) throws -> some Any
        ) throws -> PostgreSQLError.Code? {
            let server = try FakeServer { asked, _ in
                if asked == kind { return answer }
                // The row of the repository, before a put.
                return asked == Self.listing ? FakeServer.rows(columns: 1, [[FakeServer.number(2)]]) : []
            }
            let store = try server.store(settings)
            defer { withExtendedLifetime(server) {} }
            return Make.code { try call(store) }
        }

        private func get(_ store: PostgreSQLObjectStore) throws -> [UInt8]? { try store.get(1) }

        @Test("an object that is too long, NULL, twice there or a text, and answers of other kinds are refused")
        func objects() throws {
            let long = [UInt8](repeating: 1, count: 1002)
            let answers = [
                FakeServer.rows(columns: 1, [[nil]]), FakeServer.rows(columns: 1, [[long]]),
                FakeServer.rows(columns: 1, [[[1]], [[1]]]), FakeServer.rows(columns: 2, [[[1], [1]]]),
                FakeServer.rows(columns: 1, [[[1]]], format: 0), FakeServer.rows(columns: 0, []),
                Stream.Message("C", Array("SELECT 1".utf8) + [0]).bytes, [],
                Stream.Message("I", []).bytes, Stream.Message("H", [0, 0, 0]).bytes,
                Stream.Message("G", [0, 0, 0]).bytes, Stream.Message("W", [0, 0, 0]).bytes,
                FakeServer.rows(columns: 1, [[[1]]]) + FakeServer.rows(columns: 1, [[[1]]]),
            ]
            for (number, answer) in answers.enumerated() {
                #expect(try code("SELECT cipherstore.object", answer, get) == .invalidAnswer, "answer \(number)")
            }
            var bytes: [UInt8]?
            let good = try code("SELECT cipherstore.object", FakeServer.rows(columns: 1, [[[1]]])) {
                bytes = try $0.get(1)
            }
            #expect(good == nil && bytes == [1])
        }

        @Test(
            "a listing without a summary, with two, with impossible names or numbers, and one without end are refused")
        func listings() throws {
            let name = Make.name(1)
            let answers: [[[[UInt8]?]]] = [
                [], [Self.summary, Self.summary], [Self.entry(name)],
                [Self.summary, Self.entry("")], [Self.summary, Self.entry("a b")],
                [Self.summary, Self.entry("\u{7f}")],
                [Self.summary, Self.entry(String(repeating: "a", count: 201))],
                [Self.summary, [nil, nil, nil, nil, Array(name.utf8)]],
                [Self.summary, [[1], nil, nil, nil, Array(name.utf8)]],
                [[FakeServer.number(2), nil, FakeServer.number(0), FakeServer.number(0), nil]],
                [[FakeServer.number(2), FakeServer.number(0), nil, FakeServer.number(0), nil]],
                [[FakeServer.number(2), FakeServer.number(0), FakeServer.number(0), nil, nil]],
            ]
            for (number, rows) in answers.enumerated() {
                let found = try code(Self.listing, FakeServer.rows(columns: 5, rows)) { try $0.list("") }
                #expect(found == .invalidAnswer, "answer \(number)")
            }
            // Everything has to be listed again, by names that do not go on.
            let full = [[FakeServer.number(1), Array(name.utf8)], [FakeServer.number(1), Array(name.utf8)]]
            for rows in [full, [[FakeServer.number(1), nil]]] as [[[[UInt8]?]]] {
                let server = try FakeServer { asked, _ in
                    asked == Self.listing
                        ? FakeServer.rows(columns: 5, [Self.summary(count: 9)]) : FakeServer.rows(columns: 2, rows)
                }
                let store = try server.store(settings)
                defer { withExtendedLifetime(server) {} }
                #expect(Make.code { try store.list("") } == .invalidAnswer)
            }
            let good = FakeServer.rows(columns: 5, [Self.entry(name, 7), Self.summary(count: 1, fingerprint: 7)])
            var names: [String] = []
            #expect(try code(Self.listing, good) { names = try $0.names() } == nil)
            #expect(names == [name])
            let later = FakeServer.rows(columns: 5, [Self.summary(layout: 3)])
            #expect(try code(Self.listing, later) { try $0.list("") } == .unknownLayout)
        }

        @Test("a put and a deletion believe no answer of other columns or rows")
        func puts() throws {
            let answers = [
                FakeServer.rows(columns: 1, [[FakeServer.number(1)], [FakeServer.number(1)]]),
                FakeServer.rows(columns: 2, [[[1], [1]]]), FakeServer.rows(columns: 0, []), [],
            ]
            for (number, answer) in answers.enumerated() {
                let put = try code("INSERT cipherstore.object", answer) { try $0.put([1]) }
                #expect(put == .invalidAnswer, "answer \(number)")
                let deletion = try code("WITH cipherstore.object", answer) { try $0.delete(Make.name(1)) }
                #expect(deletion == .invalidAnswer, "answer \(number)")
            }
            let none = FakeServer.rows(columns: 2, [])
            #expect(try code("WITH cipherstore.object", none) { try $0.delete(Make.name(1)) } == .invalidAnswer)
            let kept = FakeServer.rows(columns: 2, [[FakeServer.number(1), FakeServer.number(0)]])
            #expect(try code("WITH cipherstore.object", kept) { try $0.delete(Make.name(1)) } == .missingRights)
        }

        @Test("rows, notices and messages without end are ended by their bytes")
        func floods() throws {
            let row = FakeServer.rows(columns: 1, [[[1]]])
            let header = Array(row.prefix(10 + 1 + 4 + 2 + 19))
            let body = [UInt8](repeating: 7, count: 1 << 20)
            let messages = [
                Stream.Message("D", [0, 1] + Stream.number(1 << 20) + body),
                Stream.Message.error("01000", severity: "NOTICE"),
                Stream.Message("D", [0, 1] + [UInt8](repeating: 255, count: 4)),
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
                let store = try server.store(patient)
                defer { withExtendedLifetime(server) {} }
                let code = Make.code { try store.get(1) }
                #expect(code == .invalidAnswer && sent.value == 0, "message \(number)")
            }
        }

        @Test("messages of impossible length or kind, and a greeting that is none, are errors of the connection")
        func messages() throws {
            let broken: [[UInt8]] = [
                [UInt8(ascii: "D"), 0x7F, 0xFF, 0xFF, 0xFF], [UInt8(ascii: "D"), 0, 0, 0, 0],
                [UInt8(ascii: "D"), 0xFF, 0xFF, 0xFF, 0xFF], [0xEE, 0, 0, 0, 4],
                Stream.Message("T", [0xFF, 0xFF]).bytes, Stream.Message("D", [0, 9]).bytes,
                Stream.Message("E", []).bytes, Stream.Message("E", Array("C".utf8)).bytes,
            ]
            for (number, bytes) in broken.enumerated() {
                let code = try code("SELECT cipherstore.object", bytes) { try $0.get(1) }
                #expect([.connectionLost, .invalidAnswer, .timedOut].contains(code), "message \(number)")
            }
            let greetings: [[UInt8]] = [
                Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), [UInt8](repeating: 0, count: 100),
                Stream.Message("R", [0, 0, 0, 99]).bytes, Stream.Message("R", [0, 0, 0, 10]).bytes,
                Stream.Message("E", Array("SFATAL\0C28P01\0Mno\0\0".utf8)).bytes,
            ]
            for (number, greeting) in greetings.enumerated() {
                let server = try FakeServer(greeting: greeting) { _, _ in nil }
                let store = try server.store(settings)
                defer { withExtendedLifetime(server) {} }
                let error = Make.error(PostgreSQLError.self) { try store.get(1) }
                let code = error?.code
                #expect(
                    code == (number == 4 ? .wrongPassword : .unreachable),
                    "greeting \(number): \(String(describing: error))")
            }
        }

        @Test("a server's words are printed in one line of printable characters, and a SQLSTATE is one")
        func words() throws {
            let text = "\u{1B}[31mred\r\n" + String(repeating: "ä", count: 5000)
            let fields = Array("SERROR\0C\u{1B}[31m\0M\(text)\0\0".utf8)
            let server = try FakeServer { _, _ in Stream.Message("E", fields).bytes }
            let store = try server.store(settings)
            defer { withExtendedLifetime(server) {} }
            let error = Make.error(PostgreSQLError.self) { try store.get(1) }
            #expect(error?.sqlState == nil && error?.code == .connectionLost)
            let description = error?.description ?? ""
            #expect(description.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } && description.count < 600)
            #expect(description.contains("[31mred"))
        }
    }
#endif
