#if PostgreSQL
    import ChangesetSync
    import Foundation
    import Synchronization

    @testable import PostgreSQLRemote

    /// A real server with a cluster of its own in a temporary folder, which listens at a socket there.
    ///
    /// A shell keeps it: when the pipe to the shell is closed, as by the end of this process however it ends, the shell ends
    /// the server by its process id and removes the folder. The server refuses to run as root, so then the user is
    /// `postgres`, whom Debian's package has created.
    final class PostgresServer: Sendable {
        /// One for all tests that do not end it.
        static let shared = Result { try PostgresServer() }

        let folder: String
        let port: Int
        /// The programs of its version.
        let programs: String
        private let shell = Process()
        private let commands = Pipe()
        private let replies = Pipe()
        private let lock = Mutex(())

        struct Failure: Error { let reason: String }

        /// - Parameter port: Where it listens for TLS connections as well, with a certificate that it has signed itself; 0 for
        ///   nowhere.
        init(port: Int = 0) throws {
            let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
            guard let version = versions.compactMap({ Int($0) }).max() else {
                throw Failure(reason: "there is no PostgreSQL server on this machine: run `make setup`")
            }
            programs = "/usr/lib/postgresql/\(version)/bin"
            let arguments = ["/bin/sh", "-c", Self.script, "sh", programs, "\(port)", Self.pooler ?? ""]
            let user = getuid() == 0 ? ["/usr/sbin/runuser", "-u", "postgres", "--"] : []
            let all = user + arguments
            shell.executableURL = URL(filePath: all[0])
            shell.arguments = Array(all.dropFirst())
            shell.environment = ["LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]
            shell.currentDirectoryURL = URL(filePath: "/")
            shell.standardInput = commands
            shell.standardOutput = replies
            try shell.run()
            self.port = port
            let first = Self.line(replies)
            folder = first
            guard first.hasPrefix("/"), Self.line(replies) == "ready" else {
                throw Failure(reason: "the server did not start: \(first)")
            }
        }

        /// A program that stands between replicas and a server, where it is installed.
        static let pooler = [ProcessInfo.processInfo.environment["CIPHERSTORE_PGBOUNCER"], "/usr/sbin/pgbouncer"]
            .compactMap(\.self).first { FileManager.default.isExecutableFile(atPath: $0) }

        deinit { try? commands.fileHandleForWriting.close() }

        private static let script = """
            export PATH="$1:$PATH"
            port=$2
            pooler=$3
            folder=$(mktemp -d /tmp/pgremote.XXXXXX) || exit 1
            trap '' INT HUP
            [ "$port" = 0 ] || export PGPORT=$port
            initdb -D "$folder/data" -U tester --auth=trust --no-sync --encoding=UTF8 --locale=C >"$folder/initdb" 2>&1 ||
                { tail -n 1 "$folder/initdb"; rm -rf "$folder"; exit 1; }
            printf 'local all %s\n' 'tester trust' 'reader trust' 'walter scram-sha-256' >"$folder/data/pg_hba.conf"
            options='-c listen_addresses='
            if [ "$port" != 0 ]; then
                echo 'hostssl all tester 127.0.0.1/32 trust' >>"$folder/data/pg_hba.conf"
                openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=server.test \\
                    -addext subjectAltName=DNS:server.test -keyout "$folder/data/server.key" \\
                    -out "$folder/data/server.crt" 2>"$folder/openssl"
                options="-c listen_addresses=127.0.0.1 -c port=$port -c ssl=on"
            fi
            start() {
                postgres -D "$folder/data" -k "$folder" $options -c fsync=off -c autovacuum=off \\
                    -c max_connections=60 </dev/null >>"$folder/server" 2>&1 &
                server=$!
                until pg_isready -q -h "$folder"; do
                    kill -0 $server 2>/dev/null || { tail -n 1 "$folder/server"; rm -rf "$folder"; exit 1; }
                    sleep 0.05
                done
            }
            stop() { kill -"$1" $server; wait $server; }
            echo "$folder"
            start
            echo ready
            while read -r command; do
                case $command in
                    INT|QUIT) stop "$command"; echo stopped;;
                    start) start; echo ready;;
                    pooler)
                        mkdir "$folder/pooler"
                        echo '"tester" ""' >"$folder/pooler/users"
                        printf '%s\n' '[databases]' "* = host=$folder" '[pgbouncer]' 'listen_addr =' 'listen_port = 5432' \\
                            "unix_socket_dir = $folder/pooler" 'auth_type = trust' "auth_file = $folder/pooler/users" \\
                            'pool_mode = transaction' 'default_pool_size = 2' >"$folder/pooler/ini"
                        "$pooler" -q "$folder/pooler/ini" </dev/null >"$folder/pooler/log" 2>&1 &
                        bouncer=$!
                        until pg_isready -q -h "$folder/pooler" || ! kill -0 $bouncer 2>/dev/null; do sleep 0.05; done
                        echo ready;;
                esac
            done
            [ -z "$bouncer" ] || kill -TERM $bouncer
            stop INT
            rm -rf "$folder"
            """

        private static func line(_ pipe: Pipe) -> String {
            var bytes: [UInt8] = []
            while let byte = try? pipe.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
                bytes.append(byte)
            }
            return String(decoding: bytes, as: UTF8.self)
        }

        private func command(_ name: String) {
            lock.withLock { _ in
                try? commands.fileHandleForWriting.write(contentsOf: Data((name + "\n").utf8))
                _ = Self.line(replies)
            }
        }

        /// Ends the server: its connections are closed with 57P01, or without a word.
        func stop(atOnce: Bool) { command(atOnce ? "QUIT" : "INT") }
        func start() { command("start") }

        /// Starts pgbouncer with transaction pooling and two connections.
        ///
        /// - Returns: The folder of its socket.
        func startPooler() -> String {
            command("pooler")
            return folder + "/pooler"
        }

        func url(_ database: String, user: String = "tester", host: String? = nil) -> String {
            "postgresql://\(user)@/\(database)?host=\(host ?? folder)" + (port == 0 ? "" : "&port=\(port)")
        }
    }

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
            let process = Process()
            let pipe = Pipe()
            process.executableURL = URL(filePath: "\(server.programs)/\(program)")
            process.arguments = ["-h", server.folder, "-U", "tester"] + arguments + [name]
            process.standardOutput = pipe
            try process.run()
            let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
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
