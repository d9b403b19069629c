#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Glibc
    import Synchronization

    @testable import PostgreSQLRemote

    /// A socket at which a test plays the server, or stands between client and server. libpq finds it by the folder.
    final class SocketListener: Sendable {
        let folder: String
        private let descriptor: Int32
        /// Kept until the end: the number of a closed descriptor may be that of another connection.
        private let open = Mutex<[Stream]>([])

        /// - Parameter serve: Called on a thread of its own for each connection.
        init(_ serve: @escaping @Sendable (Stream) -> Void) throws {
            var template = Array("/tmp/pgproxy.XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw PostgresServer.Failure(reason: "mkdtemp") }
            folder = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            guard Self.withAddress(folder, { bind(descriptor, $0, $1) }) == 0, listen(descriptor, 64) == 0 else {
                throw PostgresServer.Failure(reason: "bind")
            }
            let listener = descriptor
            let keep: @Sendable (Stream) -> Void = { [weak self] found in self?.open.withLock { $0.append(found) } }
            Thread.detachNewThread {
                while true {
                    let client = accept(listener, nil, nil)
                    guard client >= 0 else { return }
                    let stream = Stream(client)
                    keep(stream)
                    Thread.detachNewThread { serve(stream) }
                }
            }
        }

        deinit {
            shutdown(descriptor, Int32(SHUT_RDWR))
            close(descriptor)
            for client in open.withLock(\.self) { client.cut() }
            try? FileManager.default.removeItem(atPath: folder)
        }

        private static func withAddress(_ folder: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32)
            -> Int32
        {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array("\(folder)/.s.PGSQL.5432".utf8)) }
            return withUnsafePointer(to: address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
        }

        /// A port of 127.0.0.1 that nobody has now.
        static func freePort() -> Int {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            return withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    guard bind(descriptor, $0, length) == 0, getsockname(descriptor, $0, &length) == 0 else { return 0 }
                    return Int(UInt16(bigEndian: pointer.pointee.sin_port))
                }
            }
        }

        /// Connects to the server whose socket is in a folder.
        static func connect(to folder: String) -> Stream? {
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            guard withAddress(folder, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
                close(descriptor)
                return nil
            }
            return Stream(descriptor)
        }
    }

    /// One connection: bytes, and messages of PostgreSQL's protocol.
    /// <https://www.postgresql.org/docs/current/protocol-message-formats.html>
    final class Stream: Sendable {
        private let descriptor: Int32

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        deinit { close(descriptor) }

        /// A type, 0 for the first message of a client, and everything after the length.
        struct Message: Sendable {
            let type: UInt8
            let body: [UInt8]

            init(_ type: Character, _ body: [UInt8]) {
                self.type = type.asciiValue ?? 0
                self.body = body
            }

            init(type: UInt8, body: [UInt8]) { (self.type, self.body) = (type, body) }

            var bytes: [UInt8] { (type == 0 ? [] : [type]) + Stream.number(UInt32(body.count + 4)) + body }

            /// The SQL of a Parse message.
            var sql: String? {
                guard type == UInt8(ascii: "P") else { return nil }
                return String(decoding: body.drop { $0 != 0 }.dropFirst().prefix { $0 != 0 }, as: UTF8.self)
            }

            static func error(_ sqlState: String, severity: String = "ERROR") -> Message {
                let fields = ["S\(severity)", "V\(severity)", "C\(sqlState)", "Minjected by a test"]
                return Message("E", fields.flatMap { Array($0.utf8) + [0] } + [0])
            }

            static let ready = Message("Z", [UInt8(ascii: "I")])
        }

        static func number(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

        /// - Returns: nil at the end.
        func read(_ count: Int) -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: count)
            var done = 0
            while done < count {
                let got = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress! + done, count - done) }
                guard got > 0 else { return nil }
                done += got
            }
            return bytes
        }

        @discardableResult
        func write(_ bytes: [UInt8]) -> Bool {
            var done = 0
            while done < bytes.count {
                let sent = bytes.withUnsafeBytes { rest in
                    send(descriptor, rest.baseAddress! + done, bytes.count - done, Int32(MSG_NOSIGNAL))
                }
                guard sent > 0 else { return false }
                done += sent
            }
            return true
        }

        @discardableResult
        func write(_ message: Message) -> Bool { write(message.bytes) }

        func message(isFirst: Bool = false) -> Message? {
            guard let type = isFirst ? 0 : read(1)?[0], let length = read(4) else { return nil }
            let count = length.reduce(0) { $0 << 8 | Int($1) } - 4
            guard count >= 0, let body = read(count) else { return nil }
            return Message(type: type, body: body)
        }

        func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    /// Stands before a server, and does to the connection what a test wants.
    final class FaultyProxy: Sendable {
        enum Fault: Sendable {
            /// The connection is lost before the server has the statement.
            case cutBefore
            /// The server has committed, and nobody hears of it.
            case cutAfter
            /// The statement is not executed, and the server reports an error.
            case report(String)
            /// The statement is committed, and an error is reported in place of its success.
            case reportAfter(String)
            /// The server ends the connection with a reason.
            case end(String)
            /// The answer never comes.
            case silence
        }

        private let server: String
        private let plan: @Sendable (String, Int) -> Fault?
        private let counts = Mutex<[String: Int]>([:])
        private let listener = Mutex<SocketListener?>(nil)

        /// - Parameter plan: What happens to a statement, by its SQL and how often such a one has come: its first word and its
        ///   table.
        init(before server: PostgresServer, _ plan: @escaping @Sendable (String, Int) -> Fault?) throws {
            self.server = server.folder
            self.plan = plan
            let listener = try SocketListener { [weak self] client in self?.serve(client) }
            self.listener.withLock { $0 = listener }
        }

        var folder: String { listener.withLock { $0?.folder ?? "" } }

        /// How many statements of a kind have come: `INSERT cipherstore.log`.
        func count(_ kind: String) -> Int { counts.withLock { $0[kind] ?? 0 } }

        /// How many statements have come.
        var total: Int { counts.withLock { $0.values.reduce(0, +) } }

        static func kind(_ sql: String) -> String {
            let words = sql.split { " \n(".contains($0) }
            let table = words.first { $0.hasPrefix("cipherstore.") } ?? ""
            return "\(words.first ?? "") \(table)"
        }

        private func serve(_ client: Stream) {
            guard let server = SocketListener.connect(to: server), let first = client.message(isFirst: true) else {
                return client.cut()
            }
            server.write(first)
            let fault = Mutex<Fault?>(nil)
            let answers = Answers(fault: { fault.withLock(\.self) })
            Thread.detachNewThread { answers.forward(server, to: client) }
            var held: [Stream.Message] = []
            while let message = client.message() {
                if ["P", "B", "D", "E"].contains(Character(UnicodeScalar(message.type))) {
                    held.append(message)
                    continue
                }
                let sql = held.compactMap(\.sql).first
                let wanted = message.type == UInt8(ascii: "S") ? sql.flatMap(next) : nil
                switch wanted {
                case .cutBefore:
                    client.cut()
                    server.cut()
                    return
                case .report(let state):
                    client.write(Stream.Message.error(state).bytes + Stream.Message.ready.bytes)
                case .end(let state):
                    client.write(.error(state, severity: "FATAL"))
                    client.cut()
                    server.cut()
                    return
                case .silence: break
                case .cutAfter, .reportAfter, nil:
                    fault.withLock { $0 = wanted }
                    server.write(held.flatMap(\.bytes) + message.bytes)
                }
                held = []
            }
            server.cut()
        }

        private func next(_ sql: String) -> Fault? {
            let count = counts.withLock { counts in
                counts[Self.kind(sql), default: 0] += 1
                return counts[Self.kind(sql)]!
            }
            return plan(Self.kind(sql), count)
        }

        private struct Answers: Sendable {
            let fault: @Sendable () -> Fault?

            func forward(_ server: Stream, to client: Stream) {
                while let message = server.message() {
                    let isEnd = message.type == UInt8(ascii: "Z")
                    switch fault() {
                    case .cutAfter where isEnd:
                        client.cut()
                        server.cut()
                        return
                    case .reportAfter(let state) where isEnd:
                        client.write(Stream.Message.error(state).bytes + Stream.Message.ready.bytes)
                    case .cutAfter, .reportAfter: break
                    default: client.write(message)
                    }
                }
                client.cut()
            }
        }
    }

    /// A server that answers statements with what a test wants.
    final class FakeServer: Sendable {
        private let listener: SocketListener

        /// - Parameter answer: The messages for a statement, without the last one. nil: the connection is closed.
        init(
            greeting: [UInt8] = FakeServer.welcome, _ answer: @escaping @Sendable (String, Stream) -> [UInt8]?
        ) throws {
            listener = try SocketListener { client in
                guard client.message(isFirst: true) != nil, client.write(greeting) else { return client.cut() }
                var sql = ""
                while let message = client.message() {
                    if let found = message.sql { sql = found }
                    guard message.type == UInt8(ascii: "S") else { continue }
                    guard let bytes = answer(FaultyProxy.kind(sql), client) else { return client.cut() }
                    client.write(bytes + Stream.Message.ready.bytes)
                }
            }
        }

        static let welcome = Stream.Message("R", [0, 0, 0, 0]).bytes + Stream.Message.ready.bytes

        func store(_ settings: PostgreSQLObjectStore.Settings) throws -> PostgreSQLObjectStore {
            try PostgreSQLObjectStore(
                url: "postgresql://nobody@/none?host=\(listener.folder)", repository: Make.repository(),
                sharedWithOthers: true, settings: settings)
        }

        /// ParseComplete, BindComplete, RowDescription, rows, CommandComplete.
        static func rows(columns: Int, _ rows: [[[UInt8]?]], format: UInt8 = 1) -> [UInt8] {
            let description = (0..<columns).flatMap { _ -> [UInt8] in [UInt8](repeating: 0, count: 18) + [format] }
            let content = rows.flatMap { row -> [UInt8] in
                let values = row.flatMap { value -> [UInt8] in
                    value.map { Stream.number(UInt32($0.count)) + $0 } ?? [255, 255, 255, 255]
                }
                return Stream.Message("D", [0, UInt8(row.count)] + values).bytes
            }
            return Stream.Message("1", []).bytes + Stream.Message("2", []).bytes
                + Stream.Message("T", [0, UInt8(columns)] + description).bytes + content
                + Stream.Message("C", Array("SELECT 1".utf8) + [0]).bytes
        }

        static func number(_ value: Int64) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
    }
#endif
