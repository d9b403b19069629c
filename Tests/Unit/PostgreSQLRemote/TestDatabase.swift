#if PostgreSQL
    import ChangesetSync
    import Foundation
    import Synchronization
    import TestKit

    @testable import PostgreSQLRemote

    /// An empty database of the server.
    final class TestDatabase: Sendable {
        let server: PostgresServer
        let name: String
        /// The administrator's connection to it.
        let admin: Connection

        init(_ server: PostgresServer? = nil) async throws {
            self.server = try server ?? PostgresServer.shared.get()
            name = "t" + UUID().uuidString.replacing("-", with: "").lowercased()
            let first = try await Self.connect(self.server.url("postgres"))
            try await first.run(Statement("CREATE DATABASE \(name) TEMPLATE template0"), within: .seconds(60))
            first.close()
            admin = try await Self.connect(self.server.url(name))
        }

        static func connect(_ url: String) async throws -> Connection {
            let address = try ServerAddress(url: url, connectLimit: .seconds(20))
            let connection = Connection(remote: address.name)
            try await connection.connect(address.attempts[0], within: .seconds(20))
            return connection
        }

        var url: String { server.url(name) }

        /// A remote whose tables are there.
        func remote(
            _ repository: RepositoryID = Make.repository(), settings: PostgreSQLRemote.Settings = .init(),
            sharedWithOthers: Bool = false, through host: String? = nil, user: String = "tester"
        ) throws -> PostgreSQLRemote {
            try PostgreSQLRemote(
                url: server.url(name, user: user, host: host), repository: repository,
                sharedWithOthers: sharedWithOthers, settings: settings)
        }

        func run(_ sql: String) async throws { try await admin.run(Statement(sql), within: .seconds(60)) }

        /// The first value of each row, as text.
        func texts(_ sql: String) async throws -> [String] {
            let statement = Statement(sql, columns: 1, mostRows: 100_000, valueBytes: 16_000_000)
            let answer = try await admin.rows(statement, within: .seconds(60))
            return (0..<answer.rowCount).map { String(decoding: answer.bytes($0, 0) ?? [], as: UTF8.self) }
        }

        /// Waits until a query returns a row.
        func first(_ sql: String) async throws -> String {
            let deadline = ContinuousClock.now + .seconds(30)
            while ContinuousClock.now < deadline {
                if let found = try await texts(sql).first { return found }
                await Task.yield()
            }
            throw PostgresServer.Failure(reason: "nothing within 30 seconds: \(sql)")
        }

        /// Runs a program of PostgreSQL against the database.
        func output(of program: String, _ arguments: [String]) throws -> String {
            try server.output(of: program, arguments + [name])
        }
    }

    /// A value that the tasks of a test share.
    final class Shared<Value: Sendable>: Sendable {
        private let content: Mutex<Value>

        init(_ value: Value) { content = Mutex(value) }

        var value: Value { content.withLock(\.self) }

        func change(_ body: (inout Value) -> Void) { content.withLock { body(&$0) } }
    }

    /// Names and objects of tests.
    enum Make {
        static func repository(_ first: UInt8 = 0xA0) -> RepositoryID {
            RepositoryID(bytes: (0..<16).map { first &+ $0 })!
        }

        static func author(_ first: UInt8 = 0xC0) -> AuthorPseudonym {
            AuthorPseudonym(bytes: (0..<16).map { first &+ $0 })!
        }

        static func id(_ number: Int) -> ObjectID {
            ObjectID(bytes: (0..<32).map { UInt8(truncatingIfNeeded: number >> (8 * min($0, 3))) ^ UInt8($0 / 4) })!
        }

        /// Bytes without a pattern.
        static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
            var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
            let words = (0..<(count + 7) / 8).map { _ in
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                return state
            }
            return words.withUnsafeBytes { Array($0.prefix(count)) }
        }

        static func object(
            _ number: Int, author: AuthorPseudonym = author(), sequence: UInt64? = nil, bytes: [UInt8]? = nil,
            repository: RepositoryID = repository()
        ) -> RemoteObject {
            RemoteObject(
                repository: repository, id: id(number),
                position: sequence.map { LogPosition(author: author, sequence: $0) },
                bytes: bytes ?? self.bytes(40 + number % 7, seed: UInt64(number)))
        }

        /// Objects with the positions 1 to `count`.
        static func objects(
            _ count: Int, author: AuthorPseudonym = author(), from first: Int = 1,
            repository: RepositoryID = repository()
        ) -> [RemoteObject] {
            (0..<count).map {
                object(first + $0, author: author, sequence: UInt64($0 + 1), repository: repository)
            }
        }

        /// Everything in the logs, page by page.
        static func listAll(
            _ remote: some SyncRemote, limit: Int = 100
        ) async throws -> (entries: [RemoteEntry], pages: Int) {
            var (entries, pages, cursor) = ([RemoteEntry](), 0, RemoteCursor())
            while true {
                let page = try await remote.list(after: cursor, limit: limit)
                entries += page.entries
                pages += 1
                cursor = page.next
                if !page.hasMore { return (entries, pages) }
            }
        }

        /// The error of a call, as one of a type.
        static func error<E: Error>(_: E.Type, _ body: () async throws -> some Any) async -> E? {
            do {
                _ = try await body()
                return nil
            } catch { return error as? E }
        }

        static func code(_ body: () async throws -> some Any) async -> PostgreSQLError.Code? {
            await error(PostgreSQLError.self, body)?.code
        }
    }
#endif
