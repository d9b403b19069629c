import CipherStore
import Foundation
import StoreCrypto
import StorePlatform
import Synchronization

/// Examines each connection of a pool: the writer, and all readers at once.
final class PoolChecks: Sendable {
    private let pool: any DatabaseReader
    /// Whose pool it is, for the evidence.
    private let whose: String
    private let settings: CipherSettings
    private let seen = Mutex(Seen())

    /// The findings about all connections.
    private struct Seen {
        var connections = 0
        var hasSorted = false
        var findings: Set<String> = []
        var temporaryFiles: Set<String> = []
        /// Why connections could not be used.
        var failures: Set<String> = []
    }

    init(pool: any DatabaseReader, whose: String, settings: CipherSettings) {
        self.pool = pool
        self.whose = whose
        self.settings = settings
    }

    func results() -> [CheckResult] {
        examineReaders()
        if let writer = pool as? any DatabaseWriter { writer.writeWithoutTransaction { examine($0, sorts: false) } }
        let found = seen.withLock { $0 }
        let failures = found.failures.sorted().map { "\(whose): a connection could not be used: \($0)" }
        let connections =
            CheckResult(
                .connections, findings: failures + found.findings.sorted(),
                passing: [
                    "\(whose): \(CountText.text(found.connections, "connection has", "connections have")) all required settings"
                ],
                remedy: "Remove the pragmas from prepareDatabase that set this.")
        guard found.hasSorted else {
            return [connections, CheckResult(.temporaryFiles, .notApplicable, "\(whose): no reader could sort")]
        }
        return [
            connections,
            CheckResult(
                .temporaryFiles, findings: found.temporaryFiles.sorted(),
                passing: ["\(whose): a sort of \(ConformanceLimits.sortedBytes >> 20) MiB made no file"],
                remedy: "Set temp_store = MEMORY first on every connection, and never change it."),
        ]
    }

    /// All readers are in use at once, so that each of them is examined.
    private func examineReaders() {
        let count = max(1, pool.configuration.maximumReaderCount)
        let gate = Gate(count)
        let threads = DispatchGroup()
        for index in 0..<count {
            threads.enter()
            Thread { [self] in
                do {
                    try pool.read { db in
                        examine(db, sorts: index == 0)
                        gate.pass()
                    }
                } catch {
                    fail(error)
                    gate.pass()
                }
                threads.leave()
            }.start()
        }
        threads.wait()
    }

    private func examine(_ db: Database, sorts: Bool) {
        do {
            let findings = try findings(db)
            let files = sorts ? try filesOfSort(db) : []
            seen.withLock {
                $0.connections += 1
                $0.hasSorted = $0.hasSorted || sorts
                $0.findings.formUnion(findings)
                $0.temporaryFiles.formUnion(files)
            }
        } catch {
            fail(error)
        }
    }

    private func fail(_ error: any Error) { seen.withLock { _ = $0.failures.insert("\(error)") } }

    // MARK: One connection

    private func findings(_ db: Database) throws -> [String] {
        var findings: [String] = []
        let temporary = try Int.fetchOne(db, sql: "PRAGMA temp_store") ?? 0
        if temporary != 2 {
            let name = temporary == 1 ? "FILE" : "DEFAULT"
            findings.append("temp_store is \(name): temporary tables, sorts and indexes spill to disk as plaintext")
        }
        let expected = [
            ("cipher_page_size", "\(settings.pageBytes)"), ("cipher_use_hmac", "1"),
            ("cipher_hmac_algorithm", "HMAC_\(settings.hmacHash.rawValue.uppercased())"),
        ]
        for (pragma, value) in expected {
            let found = try String.fetchOne(db, sql: "PRAGMA \(pragma)") ?? "not there"
            if found != value { findings.append("\(pragma) is \(found), where the store has \(value)") }
        }
        let header = try Int.fetchOne(db, sql: "PRAGMA cipher_plaintext_header_size") ?? 0
        if header != 32 {
            findings.append("cipher_plaintext_header_size is \(header): the salt is in the header of the file")
        }
        let automatic = try Int.fetchOne(db, sql: "PRAGMA wal_autocheckpoint") ?? 0
        if automatic != 0 {
            findings.append(
                "wal_autocheckpoint is \(automatic): SQLite before 3.51.3 can lose commits when two connections checkpoint"
            )
        }
        return findings
    }

    /// The temporary files that exist during a sort that exceeds every cache.
    private func filesOfSort(_ db: Database) throws -> [String] {
        let rows = ConformanceLimits.sortedBytes / 2000
        let sql = """
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < \(rows))
            SELECT hex(randomblob(1000)) AS text FROM c ORDER BY text
            """
        let cursor = try String.fetchCursor(db, sql: sql)
        // The first row comes after the whole sort, and its files exist until the last.
        _ = try cursor.next()
        return try Self.openTemporaryFiles()
    }

    private static func openTemporaryFiles() throws -> [String] {
        let folder = "/proc/self/fd"
        guard let numbers = try? FileManager.default.contentsOfDirectory(atPath: folder) else { return [] }
        return numbers.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)") }
            // SQLite's names of temporary files.
            .filter { Files.name(of: $0).hasPrefix("etilqs_") }
            .map { "a sort wrote plaintext to the temporary file \"\($0)\"" }
    }
}

/// Threads wait here until all of them are, or some time has passed.
private final class Gate: Sendable {
    private let condition = NSCondition()
    private let missing: Mutex<Int>

    init(_ count: Int) { missing = Mutex(count) }

    func pass() {
        condition.lock()
        defer { condition.unlock() }
        missing.withLock { $0 -= 1 }
        if missing.withLock({ $0 }) <= 0 { return condition.broadcast() }
        let deadline = Date(timeIntervalSinceNow: ConformanceLimits.connectionWait)
        while missing.withLock({ $0 }) > 0, condition.wait(until: deadline) {}
    }
}
