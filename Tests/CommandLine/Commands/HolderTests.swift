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

    @Test(
        "a salvage is refused while a shell that has read nothing has the store open",
        .enabled(if: AdoptionFixture.shell != nil, "needs the sqlcipher shell"))
    func salvageBesideShell() throws {
        let shell = try #require(AdoptionFixture.shell)
        let run = try CommandRun(shell, ["-batch", place.path("s.db")], input: "SELECT 1;\n.shell sleep 60\n")
        defer { run.send(SIGKILL) }
        #expect(waitUntil { run.outputSoFar.contains("1") })
        let outcome = try place.ctl("salvage", place.path("s.db"), place.path("new.db"))
        #expect(outcome.status == 69 && !place.exists("new.db"), "\(outcome.errors)")
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
                Set(holder["uses"] as? [String] ?? []).isSuperset(of: ["lease", "writer", "write turn", "write lock"]))
            #expect(holder["writing_seconds"] as? Double ?? -1 >= 0)
            let line = try #require(try status().output.split(separator: "\n").first { $0.hasPrefix("holders ") })
            #expect(
                line.contains("process \(getpid()) (") && line.contains("\"importer\"") && line.contains("write turn"))
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
        #expect(try waitUntil { try holders().contains { ($0["uses"] as? [String])?.contains("write turn") == true } })
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

    // A collector takes a scrape that exits with 2 for one that failed, and a store that is gone was no figure at all.
    @Test("figures are complete with exit code 0, whatever they say, and say whether the store could be read")
    func openMetricsOfTrouble() throws {
        let sound = try status("--openmetrics")
        let path = place.path("s.db")
        #expect(sound.status == 0 && sound.output.contains("cipherstore_up{store=\"\(path)\"} 1\n"), "\(sound.output)")
        let identity = try #require(status("--json").json["store_id"] as? String)
        #expect(
            sound.output.contains("cipherstore_store_info{store=\"\(path)\",store_id=\"\(identity)\"} 1\n"),
            "\(sound.output)")
        try place.remove("s.db-sidecar.bak")
        let attention = try status("--openmetrics")
        #expect(attention.status == 0, "\(attention.errors)")
        #expect(attention.output.contains("cipherstore_attention{store=\"\(path)\"} 1\n"), "\(attention.output)")
        let gone = try place.run(["status", place.path("gone.db"), "--no-key", "--openmetrics"])
        #expect(gone.status == 0 && gone.errors.contains("gone.db"), "\(gone.errors)")
        let lines = gone.output.split(separator: "\n")
        #expect(lines.contains("cipherstore_up{store=\"\(place.path("gone.db"))\"} 0") && lines.last == "# EOF")
        try Workplace.write([UInt8](repeating: 9, count: 32), to: place.path("other.key"))
        let wrong = try place.ctl("status", path, "--openmetrics", key: place.path("other.key"))
        #expect(wrong.status == 0 && wrong.output.contains("cipherstore_up{store=\"\(path)\"} 0\n"), "\(wrong.output)")
    }

    @Test("figures of several stores are one text: each family once, a series for each store")
    func openMetricsOfSeveral() throws {
        try place.makeStore("second.db")
        let paths = [place.path("s.db"), place.path("gone.db"), place.path("second.db")]
        let outcome = try place.run(["status"] + paths + ["--no-key", "--openmetrics"])
        #expect(outcome.status == 0, "\(outcome.errors)")
        let lines = outcome.output.split(separator: "\n").map(String.init)
        let families = lines.filter { $0.hasPrefix("# TYPE ") }
        #expect(Set(families).count == families.count, "\(outcome.output)")
        #expect(lines.filter { $0.hasPrefix("cipherstore_up{") }.map { $0.suffix(1) } == ["1", "0", "1"])
        #expect(lines.count { $0.hasPrefix("cipherstore_pages{") } == 2)
        // The lines of a family stand together.
        var (current, seen) = ("", Set<String>())
        for line in lines where !line.hasPrefix("#") {
            let name = String(line.prefix { $0 != "{" })
            if name != current { #expect(seen.insert(name).inserted, "\(name)") }
            current = name
        }
        let several = try place.run(["status"] + paths + ["--no-key"])
        #expect(several.status == 64 && several.errors.contains("--openmetrics"), "\(several.errors)")
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
