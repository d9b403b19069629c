import CipherStore
import Foundation
import TestKit
import Testing

/// Stores made here are read and written by stock SQLCipher, and the other way round.
@Suite struct InteroperabilityTests {
    private static let passphrase = "sesame street"
    private static let salt = "8f3c1d5e7a9b0c2d4e6f8091a2b3c4d5"
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    /// A store with a table, and the pragmas by which others open it.
    private func makeStore(_ source: KeySource, _ scheme: KeyScheme) throws -> Sidecar {
        var config = Configuration()
        config.keyScheme = scheme
        let store = try SharedStore.open(at: path, unlockedBy: source, configuration: config)
        try store.write { db in
            try db.execute(
                sql: "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'zwei – δύο')")
        }
        try store.close()
        return try #require(SidecarFiles(databasePath: path).read().main.parsed?.claimed)
    }

    private func count(_ source: KeySource) throws -> Int? {
        let store = try SharedStore.open(at: path, unlockedBy: source)
        defer { try? store.close() }
        #expect(try store.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        return try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    }

    @Test(
        "stock SQLCipher reads a direct store by passphrase, header size and salt, and writes rows that are read here",
        arguments: StockSQLCipher.allCases)
    func readsAndWrites(stock: StockSQLCipher) throws {
        try stock.requirePresence()
        let source = KeySource.passphrase(Self.passphrase)
        let sidecar = try makeStore(source, .direct)
        let key = [
            "PRAGMA key = '\(Self.passphrase)'", "PRAGMA cipher_plaintext_header_size = 32",
            "PRAGMA cipher_salt = \"x'\(sidecar.salt.hex)'\"",
        ]
        #expect(try stock.run(path, key + ["SELECT b FROM t ORDER BY a"]) == ["one", "zwei – δύο"])
        #expect(try stock.run(path, key + ["PRAGMA cipher_integrity_check"]).isEmpty)
        _ = try stock.run(path, key + ["INSERT INTO t VALUES (3, 'three')", "CREATE INDEX t_b ON t (b)"])
        #expect(try count(source) == 3)
    }

    @Test(
        "stock SQLCipher reads a store of either scheme by the key that is revealed, and writes rows that are read here",
        arguments: StockSQLCipher.allCases, KeyScheme.allCases)
    func rawKey(stock: StockSQLCipher, scheme: KeyScheme) throws {
        try stock.requirePresence()
        let source = TestKeys.source("raw")
        _ = try makeStore(source, scheme)
        let store = try SharedStore.open(at: path, unlockedBy: source)
        let keyspec = try store.keys.reveal().withKeyspec { String(decoding: $0, as: UTF8.self) }
        try store.close()
        // The data key of a store with slots is none that anybody gave.
        #expect(keyspec.contains(String(repeating: "2a", count: 32)) == (scheme == .direct))
        let key = ["PRAGMA key = \"\(keyspec)\"", "PRAGMA cipher_plaintext_header_size = 32"]
        #expect(try stock.run(path, key + ["SELECT SUM(a) FROM t"]) == ["3"])
        _ = try stock.run(path, key + ["INSERT INTO t VALUES (3, 'three')"])
        #expect(try count(source) == 3)
    }

    /// In `make test` each program makes a file of one of the two modes, the next program of the other one.
    private static let foreignFiles = StockSQLCipher.allCases.enumerated().flatMap { number, stock in
        Sweep.sample(["DELETE", "WAL"], oneIn: 2, offset: number).map { (stock, $0) }
    }

    @Test(
        "a file that stock SQLCipher wrote with a salt of its own opens by hand, gets a sidecar, and is a store then",
        arguments: foreignFiles)
    func opensForeign(stock: StockSQLCipher, journalMode: String) throws {
        try stock.requirePresence()
        _ = try stock.run(
            path,
            [
                "PRAGMA key = '\(Self.passphrase)'", "PRAGMA cipher_plaintext_header_size = 32",
                "PRAGMA cipher_salt = \"x'\(Self.salt)'\"", "PRAGMA journal_mode = \(journalMode)",
                "CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
            ])
        // Nobody can know the salt but who brings it.
        let source = KeySource.passphrase(Self.passphrase)
        #expect(storeError { try SharedStore.open(at: path, unlockedBy: source) } == .saltMissing)
        #expect(storeError { try open(salt: nil) } == .saltMissing)
        #expect(storeError { try open(salt: String(Self.salt.reversed())) } == .wrongKey)
        #expect(!FileManager.default.fileExists(atPath: path + "-sidecar"))
        try open(salt: Self.salt)
        #expect(SidecarFiles(databasePath: path).read().main.parsed?.claimed.salt == (try Salt(hex: Self.salt)))
        #expect(SidecarFiles(databasePath: path).read().main.parsed?.claimed.state == .ready)
        #expect(try count(source) == 2)
        try open(salt: nil)
    }

    /// Opens by hand, with a salt or without.
    private func open(salt: String?) throws {
        var config = Configuration()
        config.prepareDatabase { db in
            try db.usePassphrase(Self.passphrase)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
            if let salt { try db.execute(sql: "PRAGMA cipher_salt = \"x'\(salt)'\"") }
        }
        let pool = try DatabasePool(path: path, configuration: config)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 2)
        try pool.close()
    }

    @Test(
        "a file made here without a plaintext header needs nothing but its passphrase elsewhere",
        arguments: StockSQLCipher.allCases)
    func standardFile(stock: StockSQLCipher) throws {
        try stock.requirePresence()
        var config = Configuration()
        config.prepareDatabase { try $0.usePassphrase(Self.passphrase) }
        let queue = try DatabaseQueue(path: path, configuration: config)
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (42)") }
        try queue.close()
        let key = ["PRAGMA key = '\(Self.passphrase)'"]
        #expect(try stock.run(path, key + ["SELECT a FROM t"]) == ["42"])
        _ = try stock.run(path, key + ["INSERT INTO t VALUES (43)"])
        let again = try DatabaseQueue(path: path, configuration: config)
        #expect(try again.read { try Int.fetchOne($0, sql: "SELECT SUM(a) FROM t") } == 85)
        try again.close()
    }
}

/// A SQLCipher that is not this package's.
enum StockSQLCipher: String, CaseIterable, Sendable {
    /// The shell of SQLCipher 4, `sqlcipher`.
    case shell
    /// PyPI's `sqlcipher3`, with a SQLCipher of its own: from the machine, or as `.ci/run` brings it.
    case python

    /// Skips the rest of a test case on machines without this program.
    func requirePresence() throws {
        if !isPresent { try Test.cancel("\(self) is not installed here") }
    }

    private var isPresent: Bool { ((try? run(":memory:", ["PRAGMA cipher_version"]))?.first ?? "").hasPrefix("4.") }

    private static let pythonProgram = """
        import sqlcipher3, sys
        connection = sqlcipher3.connect(sys.argv[1], isolation_level=None)
        for line in sys.stdin:
            for row in connection.execute(line):
                print("|".join(str(value) for value in row))
        connection.close()
        """

    /// Where Python looks for modules first.
    private static let pythonPath: String = {
        let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let given = ProcessInfo.processInfo.environment["PYTHONPATH"].map { ":" + $0 } ?? ""
        return repository.appending(path: ".build/python").path + given
    }()

    struct Failure: Error { let text: String }

    /// Runs statements and returns the rows they give, without the answers to PRAGMA key and the like.
    func run(_ path: String, _ statements: [String]) throws -> [String] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            switch self {
            case .shell: ["sqlcipher", "-batch", "-bail", path]
            case .python: ["python3", "-c", Self.pythonProgram, path]
            }
        process.environment = ProcessInfo.processInfo.environment.merging(["PYTHONPATH": Self.pythonPath]) { $1 }
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let text = statements.map { $0 + ";\n" }.joined()
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try input.fileHandleForWriting.close()
        let lines = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let complaints = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(text: complaints) }
        return lines.split(separator: "\n").map(String.init).filter { $0 != "ok" && $0 != "wal" && $0 != "delete" }
    }
}
