import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl status: who holds a store")
struct HolderTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func open(_ change: (inout Configuration) -> Void = { _ in }) throws -> SharedStore {
        var config = Configuration()
        change(&config)
        return try SharedStore.open(
            at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key), configuration: config)
    }

    private func status(_ options: String...) throws -> CommandRun.Outcome {
        try place.run(["status", place.path("s.db"), "--no-key"] + options)
    }

    private func holders() throws -> [[String: Any]] {
        try #require(try status("--json").json["holders"] as? [[String: Any]])
    }

    @Test("nobody holds a store that is closed; one that is open shows who has it, and who writes")
    func holding() throws {
        #expect(try holders().isEmpty)
        let store = try open { $0.label = "importer" }
        try store.write { db in
            try db.execute(sql: "UPDATE t SET text = 'changed'")
            let holder = try #require(try holders().first)
            #expect(holder["pid"] as? Int32 == getpid() && holder["state"] as? String == "running")
            #expect(holder["label"] as? String == "importer")
            #expect(
                Set(holder["uses"] as? [String] ?? []).isSuperset(of: ["lease", "writer", "write slot", "write lock"]))
            #expect(holder["writing_seconds"] as? Double ?? -1 >= 0)
            let line = try #require(try status().output.split(separator: "\n").first { $0.hasPrefix("holders ") })
            #expect(
                line.contains("process \(getpid()) (") && line.contains("\"importer\"") && line.contains("write slot"))
        }
        let holder = try #require(try holders().first)
        #expect(holder["uses"] as? [String] == ["lease", "writer"] && holder["writes"] as? Int == 1)
        #expect(holder["write_seconds"] as? Double ?? 0 > 0 && holder["writing_seconds"] is NSNull)
        try store.close()
        #expect(try holders().isEmpty)
    }

    @Test("a process that is stopped while it writes needs attention")
    func stopped() throws {
        let shell = try CommandRun(
            Workplace.program(), ["sql", place.path("s.db"), "--write", "--raw-key-file", place.key, endless],
            input: nil, environment: [:], directory: place.folder.url.path)
        let process = shell.processIdentifier
        defer { kill(process, SIGKILL) }
        #expect(try waitUntil { try holders().contains { ($0["uses"] as? [String])?.contains("write slot") == true } })
        kill(process, SIGSTOP)
        #expect(try waitUntil { try status().status == 2 })
        let attention = try #require(try status("--json").json["attention"] as? [String])
        #expect(attention.first?.contains("process \(process) (cipherctl, stopped) holds the write lock") == true)
        // Once, however many of its connections are there.
        #expect(attention.filter { $0.contains("process \(process)") }.count == 1, "\(attention)")
    }

    private let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) UPDATE t SET text = (SELECT COUNT(*) FROM n)"

    @Test("figures for a monitoring system name each writing connection, and end as the form asks")
    func openMetrics() throws {
        let label = "a \"quoted\" \\ label"
        let store = try open { $0.label = label }
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'changed'") }
        let outcome = try status("--openmetrics")
        #expect(outcome.status == 0)
        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(lines.last == "# EOF")
        let labels = """
            {store="\(place.path("s.db"))",pid="\(getpid())",command="
            """
        let writes = try #require(lines.first { $0.hasPrefix("cipherstore_writes_total") })
        #expect(writes.hasPrefix("cipherstore_writes_total" + labels) && writes.hasSuffix("} 1"))
        #expect(writes.contains(#",label="a \"quoted\" \\ label"}"#))
        #expect(lines.contains("# TYPE cipherstore_write_seconds counter"))
        #expect(lines.contains(#"cipherstore_holders{store="\#(place.path("s.db"))"} 1"#))
        #expect(!lines.contains { $0.hasPrefix("cipherstore_writing_seconds") })
        // Every figure is of a family that was announced.
        let families = lines.filter { $0.hasPrefix("# TYPE ") }.map { String($0.split(separator: " ")[2]) }
        for line in lines where !line.hasPrefix("#") { #expect(families.contains { line.hasPrefix($0) }, "\(line)") }
        try store.close()
        #expect(try status("--openmetrics", "--json").status == 64)
    }

    // Both had the same labels, and a collector takes a series that is there twice for an error and drops everything.
    @Test("two pools of one process are two series, and no series is there twice")
    func twoPools() throws {
        let first = try open { $0.label = "same" }
        let second = try open { $0.label = "same" }
        for store in [first, second] { try store.write { try $0.execute(sql: "UPDATE t SET text = 'changed'") } }
        let lines = try status("--openmetrics").output.split(separator: "\n").filter { !$0.hasPrefix("#") }
        let series = lines.map { $0.prefix(upTo: $0.lastIndex(of: " ") ?? $0.endIndex) }
        #expect(Set(series).count == series.count, "\(series.joined(separator: "\n"))")
        #expect(series.count { $0.hasPrefix("cipherstore_writes_total{") } == 2)
        try first.close()
        try second.close()
    }
}
