#if PostgreSQL
    import ChangesetSync
    import Dispatch
    import Foundation
    import Synchronization
    import TestKit

    @testable import PostgreSQLRemote

    /// An empty database of the server.
    // Safe because: the administrator's connection is used on `turn` alone.
    final class TestDatabase: @unchecked Sendable {
        let server: PostgresServer
        let name: String
        private let admin: ServerConnection
        private let turn = DispatchQueue(label: "TestDatabase")

        init(_ server: PostgresServer? = nil) throws {
            self.server = try server ?? PostgresServer.shared.get()
            name = "t" + UUID().uuidString.replacing("-", with: "").lowercased()
            let first = try Self.connect(self.server.url("postgres"))
            try first.run(Statement("CREATE DATABASE \(name) TEMPLATE template0"), within: .seconds(60))
            first.close()
            admin = try Self.connect(self.server.url(name))
        }

        static func connect(_ url: String) throws -> ServerConnection {
            let address = try ServerAddress(url: url, connectLimit: .seconds(20))
            return try ServerConnection(remote: address.name, address.attempts[0], within: .seconds(20))
        }

        var url: String { server.url(name) }

        func store(
            _ repository: RepositoryID = Make.repository(), settings: PostgreSQLObjectStore.Settings = .init(),
            sharedWithOthers: Bool = false, through host: String? = nil, user: String = "tester"
        ) throws -> PostgreSQLObjectStore {
            try PostgreSQLObjectStore(
                url: server.url(name, user: user, host: host), repository: repository,
                sharedWithOthers: sharedWithOthers, settings: settings)
        }

        func run(_ sql: String) throws {
            try turn.sync { _ = try admin.run(Statement(sql), within: .seconds(60)) }
        }

        /// The first value of each row, as text.
        func texts(_ sql: String) throws -> [String] {
            let statement = Statement(sql, columns: 1, mostRows: 100_000, valueBytes: 16_000_000)
            let answer = try turn.sync { try admin.rows(statement, within: .seconds(60)) }
            return (0..<answer.rowCount).map { String(decoding: answer.bytes($0, 0) ?? [], as: UTF8.self) }
        }

        /// Waits until a query returns a row.
        func first(_ sql: String) throws -> String {
            let deadline = ContinuousClock.now + .seconds(30)
            while ContinuousClock.now < deadline {
                if let found = try texts(sql).first { return found }
                sched_yield()
            }
            throw PostgresServer.Failure(reason: "nothing within 30 seconds: \(sql)")
        }

        /// Waits until a process of the server has ended its statement, or is gone.
        func waitUntilIdle(_ pid: String) throws {
            _ = try first(
                "SELECT 'idle' WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = \(pid) AND state = 'active')"
            )
        }

        func objectCount() throws -> Int { Int(try texts("SELECT count(*)::text FROM cipherstore.object")[0]) ?? -1 }

        /// Runs a program of PostgreSQL against the database.
        func output(of program: String, _ arguments: [String]) throws -> String {
            try server.output(of: program, arguments + [name])
        }
    }

    /// A value that the threads of a test share.
    final class Shared<Value: Sendable>: Sendable {
        private let content: Mutex<Value>

        init(_ value: Value) { content = Mutex(value) }

        var value: Value { content.withLock(\.self) }

        func change(_ body: (inout Value) -> Void) { content.withLock { body(&$0) } }
    }

    /// Work on a thread of its own.
    final class Work<Value: Sendable>: Sendable {
        private let result = Mutex<Result<Value, any Error>?>(nil)
        private let end = DispatchSemaphore(value: 0)

        init(_ body: @escaping @Sendable () throws -> Value) {
            Thread.detachNewThread { [self] in
                let outcome = Result { try body() }
                result.withLock { $0 = outcome }
                end.signal()
            }
        }

        func value() throws -> Value {
            end.wait()
            guard let found = result.withLock(\.self) else { throw PostgresServer.Failure(reason: "no result") }
            return try found.get()
        }

        /// Runs the work of several threads at once.
        static func all(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Value) throws -> [Value] {
            try (0..<count).map { number in Work { try body(number) } }.map { try $0.value() }
        }
    }

    /// Names and objects of tests.
    enum Make {
        static func repository(_ first: UInt8 = 0xA0) -> RepositoryID {
            RepositoryID(bytes: (0..<16).map { first &+ $0 })!
        }

        private static func digits(_ number: Int, _ count: Int) -> String {
            let text = String(number, radix: 16)
            return String(repeating: "0", count: count - text.count) + text
        }

        /// A member record: any role may put one.
        static func name(_ number: Int) -> String { "m/" + digits(number, 32) }

        /// The author of a segment.
        static func author(_ number: Int) -> String { digits(number, 16) }

        static func segment(_ number: Int, of author: Int) -> String {
            "c/\(self.author(author))-\(number)-\(number)-\(digits(number, 16))-1-1-\(digits(number, 32))"
        }

        /// Bytes without a pattern.
        static func bytes(_ count: Int, seed: Int) -> [UInt8] {
            var state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1
            let words = (0..<(count + 7) / 8).map { _ in
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                return state
            }
            return words.withUnsafeBytes { Array($0.prefix(count)) }
        }

        static func object(_ number: Int) -> [UInt8] { bytes(40 + number % 7, seed: number) }

        /// The error of a call, as one of a type.
        static func error<E: Error>(_: E.Type, _ body: () throws -> some Any) -> E? {
            do {
                _ = try body()
                return nil
            } catch { return error as? E }
        }

        static func code(_ body: () throws -> some Any) -> PostgreSQLError.Code? {
            error(PostgreSQLError.self, body)?.code
        }
    }

    extension PostgreSQLObjectStore {
        /// Puts the objects with these numbers.
        @discardableResult
        func put(_ numbers: some Sequence<Int>) throws -> [PutOutcome] {
            try numbers.map { try put(Make.name($0), Make.object($0)) }
        }

        /// The names that a listing has, in their order.
        func names(_ prefix: String = "") throws -> [String] { try list(prefix).map(\.name).sorted() }

        func get(_ number: Int) throws -> [UInt8]? { try get(Make.name(number), limitBytes: 1000) }
    }
#endif
