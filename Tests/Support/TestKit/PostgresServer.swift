import Foundation
import Synchronization

/// A real server with a cluster of its own in a temporary folder, which listens at a socket there.
///
/// A shell keeps it: when the pipe to the shell is closed, by the end of this process however it ends, the shell ends
/// the server by its process id and removes the folder. The server refuses to run as root, so then the user is
/// `postgres`, whom Debian's package has created.
public final class PostgresServer: Sendable {
    /// One for all tests that do not end it.
    public static let shared = Result { try PostgresServer() }

    public let folder: String
    public let port: Int
    /// The programs of its version.
    public let programs: String
    private let shell = Process()
    private let commands = Pipe()
    private let replies = Pipe()
    private let lock = Mutex(())

    public struct Failure: Error {
        public let reason: String

        public init(reason: String) { self.reason = reason }
    }

    /// - Parameter port: Where it listens for TLS connections as well, with a certificate that it has signed itself; 0 for
    ///   nowhere.
    public init(port: Int = 0) throws {
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
    public static let pooler = [ProcessInfo.processInfo.environment["CIPHERSTORE_PGBOUNCER"], "/usr/sbin/pgbouncer"]
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
        printf 'local all %s\n' 'tester trust' 'reader trust' 'member trust' 'walter scram-sha-256' >"$folder/data/pg_hba.conf"
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
    public func stop(atOnce: Bool) { command(atOnce ? "QUIT" : "INT") }
    public func start() { command("start") }

    /// Starts pgbouncer with transaction pooling and two connections.
    ///
    /// - Returns: The folder of its socket.
    public func startPooler() -> String {
        command("pooler")
        return folder + "/pooler"
    }

    public func url(_ database: String, user: String = "tester", host: String? = nil) -> String {
        "postgresql://\(user)@/\(database)?host=\(host ?? folder)" + (port == 0 ? "" : "&port=\(port)")
    }

    // MARK: Databases

    /// Makes an empty database.
    ///
    /// - Returns: Its name.
    public func makeDatabase() throws -> String {
        let name = "t" + UUID().uuidString.replacing("-", with: "").lowercased()
        try output(of: "createdb", ["--template=template0", name])
        return name
    }

    /// Runs a program of PostgreSQL against the server.
    ///
    /// - Returns: What it prints.
    @discardableResult
    public func output(of program: String, _ arguments: [String]) throws -> String {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: "\(programs)/\(program)")
        process.arguments = ["-h", folder, "-U", "tester"] + arguments
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
