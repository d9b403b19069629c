import Foundation
import TestKit
import Testing

/// A folder with three stores, and a fleet file that names them.
private struct FleetPlace {
    let place: Workplace
    var file: String { place.path("fleet.toml") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
        for name in ["b.db", "c.db"] {
            for file in try place.files(of: "s.db") {
                try Workplace.write(file.bytes, to: place.path(name + file.name.dropFirst(4)), mode: file.mode)
            }
        }
        try write()
    }

    func write(_ defaults: String = "", _ more: String = "") throws {
        try? place.remove("fleet.toml")
        try place.write(
            """
            [defaults]
            raw-key-file = "\(place.key)"
            \(defaults)
            [[stores]]
            path = "\(place.folder.url.path)/?.db"
            \(more)
            """, to: "fleet.toml")
    }

    func run(_ arguments: String...) throws -> CommandRun.Outcome { try run(arguments) }

    func run(_ arguments: [String]) throws -> CommandRun.Outcome {
        try place.run(arguments + ["--fleet", file])
    }

    /// The lines of `--json`: of stores by their names, and the summary.
    func lines(_ outcome: CommandRun.Outcome) throws -> (stores: [String: [String: Any]], summary: [String: Any]) {
        var (stores, summary) = ([String: [String: Any]](), [String: Any]())
        for line in outcome.output.split(separator: "\n") {
            let object = try #require(
                JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(outcome.output)")
            if let store = object["store"] as? String { stores[URL(fileURLWithPath: store).lastPathComponent] = object }
            if let found = object["summary"] as? [String: Any] { summary = found }
        }
        return (stores, summary)
    }
}

@Suite("A fleet of stores")
struct FleetTests {
    private let fleet: FleetPlace
    private var place: Workplace { fleet.place }

    init() throws { fleet = try FleetPlace() }

    @Test("status prints one table, or a line of JSON for each store and a summary")
    func status() throws {
        let table = try fleet.run("status")
        #expect(table.status == 0 && table.errors.isEmpty, "\(table.output)\(table.errors)")
        #expect(
            table.output.split(separator: "\n").count == 5 && table.output.hasSuffix("3 stores: 3 ok\n"),
            "\(table.output)")
        let (stores, summary) = try fleet.lines(fleet.run("status", "--json", "--only", "[sb].db"))
        #expect(stores.keys.sorted() == ["b.db", "s.db"] && summary["stores"] as? Int == 2)
        let result = stores["s.db"]?["result"] as? [String: Any]
        #expect(result?["state"] as? String == "ready" && result?["authenticated"] as? Bool == true)
    }

    @Test("a store that fails, one that is gone and one that hangs stop no other; the worst code is that of the fleet")
    func failures() throws {
        try place.flip("b.db", at: 5000)
        try fleet.write(
            "",
            """
            [[stores]]
            path = "\(place.path("c.db"))"
            key-command = "sleep 300"
            [[stores]]
            path = "\(place.path("gone.db"))"
            """)
        let outcome = try fleet.run("verify", "--json", "--time-limit", "5s")
        let (stores, summary) = try fleet.lines(outcome)
        #expect(outcome.status == 65 && summary["exit_code"] as? Int == 65, "\(outcome.output)\(outcome.errors)")
        #expect(summary["ok"] as? Int == 1 && summary["failed"] as? Int == 3)
        func code(_ name: String) -> String? { (stores[name]?["error"] as? [String: Any])?["code"] as? String }
        #expect(stores["s.db"]?["verdict"] as? String == "ok")
        #expect(code("b.db") == "damaged" && code("c.db") == "timedOut" && code("gone.db") == "noSuchStore")
    }

    @Test("bounds of the file need attention, and a pattern without a store is named")
    func thresholds() throws {
        try fleet.write("min-free = \"999999TiB\"\nmax-wal = 0\n", "[[stores]]\npath = \"\(place.path("none-*.db"))\"")
        let outcome = try fleet.run("status", "--only", "s.db", "--only", "none*", "--json")
        let (stores, summary) = try fleet.lines(outcome)
        #expect(
            (stores["s.db"]?["attention"] as? [String])?.contains { $0.contains("are free on the filesystem") } == true)
        #expect((stores["none-*.db"]?["error"] as? [String: Any])?["code"] as? String == "noMatch")
        #expect(outcome.status == 66 && summary["attention"] as? Int == 1, "\(outcome.output)")
        #expect(try fleet.run("doctor", "--only", "s.db").status == 2)
    }

    @Test(
        "backups go to the place of the file; old ones are removed by its rules, after a dry run that changes nothing")
    func backups() throws {
        let repository = place.path("repository")
        try FileManager.default.createDirectory(atPath: repository, withIntermediateDirectories: false)
        let made = try place.ctl("backup", place.path("s.db"), "--to", repository, "--create")
        try #require(made.status == 0, "\(made.errors)")
        try fleet.write("backup-place = \"\(repository)\"\nkeep-last = 1\nmax-backup-age = \"1h\"\n")
        let before = FolderSnapshot(path: repository)
        let dry = try fleet.run("backup", "--dry-run", "--only", "s.db")
        #expect(dry.status == 0 && dry.output.contains("can be backed up"), "\(dry.output)\(dry.errors)")
        #expect(before.changes(until: FolderSnapshot(path: repository)).isEmpty)
        let outcome = try fleet.run("backup", "--only", "s.db")
        #expect(
            outcome.status == 0 && outcome.errors.contains("removed 1 backup"), "\(outcome.output)\(outcome.errors)")
        let list = try place.run(["backup", "list", repository, "--json"])
        #expect((list.json["backups"] as? [Any])?.count == 1)
        #expect(try fleet.run("status", "--only", "s.db").status == 0)
        try fleet.write("backup-place = \"\(place.path("gone"))\"\nmax-backup-age = \"1h\"\n")
        let gone = try fleet.run("status", "--only", "s.db")
        #expect(gone.status == 2 && gone.output.contains("cannot be read"), "\(gone.output)")
    }

    // Story: copies that a member of the group had put into the folder pushed all backups of the store out.
    @Test("copies of a store are not backed up beside it, and no backup is removed")
    func copies() throws {
        let repository = place.path("repository")
        try FileManager.default.createDirectory(atPath: repository, withIntermediateDirectories: false)
        try #require(try place.ctl("backup", place.path("s.db"), "--to", repository, "--create").status == 0)
        try fleet.write("backup-place = \"\(repository)\"\nkeep-last = 1\n")
        let before = FolderSnapshot(path: repository)
        let outcome = try fleet.run("backup", "--json")
        let (stores, _) = try fleet.lines(outcome)
        for name in ["s.db", "b.db", "c.db"] {
            #expect(
                (stores[name]?["error"] as? [String: Any])?["code"] as? String == "copiedStore", "\(outcome.output)")
        }
        #expect(outcome.status == 64 && before.changes(until: FolderSnapshot(path: repository)).isEmpty)
    }

    @Test("a replica that nobody continues, or that is behind, needs attention, and its lag is a metric")
    func replica() throws {
        let (store, repository) = (place.path("s.db"), place.path("replica"))
        try FileManager.default.createDirectory(atPath: repository, withIntermediateDirectories: false)
        try fleet.write("replica-place = \"\(repository)\"\nmax-replication-lag = \"0s\"\n")
        let absent = try fleet.run("status", "--only", "s.db")
        #expect(absent.status == 2 && absent.output.contains("cannot be examined"), "\(absent.output)")
        let made = try place.run(["replicate", store, "--to", repository, "--create", "--once"])
        try #require(made.status == 0, "\(made.errors)")
        let stopped = try fleet.run("status", "--only", "s.db")
        #expect(stopped.status == 2 && stopped.output.contains("no process replicates it"), "\(stopped.output)")
        let service = try CommandRun(
            Workplace.program(), ["replicate", store, "--to", repository], input: nil, environment: [:],
            directory: place.folder.url.path)
        defer { service.send(SIGKILL) }
        #expect(try waitUntil { try fleet.run("status", "--only", "s.db").status == 0 })
        let metrics = try fleet.run("status", "--only", "s.db", "--openmetrics").output
        #expect(metrics.contains("cipherstore_replication_running{store=\"\(store)\"} 1\n"), "\(metrics)")
        #expect(metrics.contains("cipherstore_replication_lag_seconds{store=\"\(store)\"} 0"), "\(metrics)")
        // A stopped process holds its lock, and stores nothing.
        service.send(SIGSTOP)
        try #require(try place.ctl("sql", store, "DELETE FROM t WHERE id = 1", "--write").status == 0)
        #expect(
            try waitUntil { try fleet.run("status", "--only", "s.db").output.contains("is allowed") })
    }

    @Test("a rotation outside of its window is refused with the next opening, and a dry run is not")
    func rotation() throws {
        // A window that was open yesterday at this time, and no longer.
        let day = Calendar.current.component(.weekday, from: Date().addingTimeInterval(-86_400))
        let name = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][day - 1]
        let settings = "rotate-after = \"0d\"\nrotation-backup = \"\(place.folder.url.path)\"\n"
        try fleet.write(settings + "rotation-window = \"\(name) 00:00-24:00\"")
        let refused = try fleet.run("rotate", "--only", "s.db", "--json")
        let (stores, summary) = try fleet.lines(refused)
        let error = stores["s.db"]?["error"] as? [String: Any]
        #expect(refused.status == 75 && summary["refused"] as? Int == 1 && error?["code"] as? String == "outsideWindow")
        #expect(
            (error?["message"] as? String)?.contains(#/closed until 20\d\d-\d\d-\d\dT00:00:00/#) == true,
            "\(refused.output)")
        let dry = try fleet.run("rotate", "--only", "s.db", "--dry-run")
        #expect(dry.status == 0 && dry.output.contains("can begin"), "\(dry.output)\(dry.errors)")
        try fleet.write(settings + "rotation-window = \"00:00-24:00\"")
        let done = try fleet.run("rotate", "--only", "s.db")
        #expect(done.status == 0 && done.output.contains("epoch 1 -> 2"), "\(done.output)\(done.errors)")
        let later = try fleet.run("rotate", "--only", "s.db", "--if-older-than", "1d")
        #expect(later.status == 0 && later.output.contains("1 not due"), "\(later.output)")
    }

    @Test("Ctrl-C ends all, and says what was not begun")
    func interruption() throws {
        try fleet.write("", "[[stores]]\npath = \"\(place.folder.url.path)/?.db\"\nkey-command = \"sleep 300\"")
        let run = try CommandRun(
            Workplace.program(), ["verify", "--fleet", fleet.file, "--jobs", "2", "--json"])
        try #require(waitUntil { Self.children(of: run.processIdentifier) == 2 })
        run.send(SIGINT)
        let outcome = run.finish()
        let (_, summary) = try fleet.lines(outcome)
        #expect(outcome.status == 130 && summary["not_begun"] as? Int == 1, "\(outcome.output)\(outcome.errors)")
    }

    private static func children(of process: Int32) -> Int {
        let path = "/proc/\(process)/task/\(process)/children"
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(separator: " ").count
    }

    @Test(
        "a mistake in the file, or in the arguments, is a sentence with its place",
        arguments: [
            (["status", "s.db"], "Arguments beside --fleet"), (["rotate", "--compromised"], "store by store"),
            (["verify", "--jobs", "0"], "--jobs needs"), (["status", "--only", "zzz"], "No store of the fleet"),
            (["verify", "--key-fd", "3"], "store by store"), (["status", "--textfile", "/x"], "--textfile"),
        ])
    func mistakes(_ arguments: [String], _ part: String) throws {
        let outcome = try fleet.run(arguments)
        #expect(outcome.status == 64 && outcome.errors.contains(part), "\(outcome.errors)")
    }

    // Story: a store of a pattern whose database was renamed away was in no report, and the exit code was 0.
    @Test("a store of a pattern whose database is gone is reported by its sidecar")
    func lostDatabase() throws {
        #expect(rename(place.path("s.db"), place.path("away")) == 0)
        let outcome = try fleet.run("status", "--only", "s.db")
        #expect(outcome.status != 0 && outcome.output.contains("s.db"), "\(outcome.output)\(outcome.errors)")
    }

    @Test("a typing error in the file ends every command before anything is done")
    func typingError() throws {
        try fleet.write("max-key-aeg = \"1d\"")
        let outcome = try fleet.run("rotate")
        #expect(outcome.status == 64 && outcome.errors.contains("line 3, column 1"), "\(outcome.errors)")
        #expect(outcome.errors.contains("Did you mean \"max-key-age\"?"))
        let missing = try place.run(["status", "--fleet", place.path("no.toml")])
        #expect(missing.status == 64 && missing.errors.contains("does not exist"))
        let alone = try place.run(["status", place.path("s.db"), "--jobs", "2"])
        #expect(alone.status == 64 && alone.errors.contains("--jobs is given without --fleet"))
    }
}

@Suite("Metrics of a fleet")
struct FleetMetricsTests {
    private let fleet: FleetPlace
    private var place: Workplace { fleet.place }

    init() throws { fleet = try FleetPlace() }

    /// The parser that Prometheus publishes, which is stricter than its own server.
    private static let parser = """
        import sys
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
        for family in parse(sys.stdin.read()):
            assert family.documentation and family.type != "unknown", family.name
            for sample in family.samples: print(sample.name, sample.labels.get("store", "").rsplit("/", 1)[-1], float(sample.value))
        """

    private static let hasParser: Bool = {
        guard let python = SystemProgram.find("python3"),
            let run = try? CommandRun(python, ["-c", "import prometheus_client.openmetrics.parser"])
        else { return false }
        return run.finish().status == 0
    }()

    @Test("an independent parser reads them", .enabled(if: hasParser, "there is no prometheus_client"))
    func parses() throws {
        try fleet.write("", "[[stores]]\npath = [\"\(place.path("none-*"))\", \"\(place.path("gone.db"))\"]")
        let metrics = try fleet.run("status", "--openmetrics")
        #expect(metrics.status == 0, "\(metrics.errors)")
        let python = try #require(SystemProgram.find("python3"))
        let parsed = try CommandRun(python, ["-c", Self.parser], input: metrics.output).finish()
        #expect(parsed.status == 0, "\(parsed.errors)\n\(metrics.output)")
        for line in [
            "cipherstore_up s.db 1.0", "cipherstore_up gone.db 0.0", "cipherstore_up none-* 0.0",
            "cipherstore_fleet_stores  5.0",
        ] { #expect(parsed.output.contains(line + "\n"), "\(line)\n\(parsed.output)") }
    }

    @Test("a file of metrics is written in one step, and others may read it")
    func textfile() throws {
        let path = place.path("cipherstore.prom")
        // A link of another user has no mode to keep.
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: place.path("other"))
        for _ in 0..<2 {
            let outcome = try fleet.run("status", "--openmetrics", "--textfile", path)
            #expect(outcome.status == 0 && outcome.output.isEmpty, "\(outcome.errors)")
        }
        let text = String(decoding: try place.bytes("cipherstore.prom"), as: UTF8.self)
        #expect(text.hasSuffix("# EOF\n") && text.contains("cipherstore_check_seconds{"))
        #expect(text.contains("# UNIT cipherstore_file_bytes bytes\n"))
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o644)
        #expect(try place.names().allSatisfy { !$0.contains(".tmp-") })
    }

    @Test("the service answers /metrics and /healthz, and ends with its programs on SIGTERM")
    func service() throws {
        let run = try CommandRun(
            Workplace.program(), ["serve-metrics", "--fleet", fleet.file, "--listen", "127.0.0.1:0", "--every", "1s"])
        var port: UInt16 = 0
        let isServing = waitUntil {
            guard let match = run.errorsSoFar.firstMatch(of: #/127\.0\.0\.1:(\d+);/#) else { return false }
            port = UInt16(match.1) ?? 0
            return true
        }
        try #require(isServing, "\(run.errorsSoFar)")
        #expect(waitUntil { RawConnection.get("/healthz", port: port).hasPrefix("HTTP/1.1 200 ") })
        let metrics = RawConnection.get("/metrics", port: port)
        #expect(metrics.hasPrefix("HTTP/1.1 200 ") && metrics.hasSuffix("# EOF\n"), "\(metrics.prefix(300))")
        #expect(metrics.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"))
        // A store that is lost makes the service unhealthy, and names no store to a load balancer.
        try place.remove("b.db", "b.db-sidecar", "b.db-sidecar.bak")
        try fleet.write("", "[[stores]]\npath = \"\(place.path("b.db"))\"")
        let isUnhealthy = waitUntil {
            let health = RawConnection.get("/healthz", port: port)
            return health.hasPrefix("HTTP/1.1 503 ") && health.hasSuffix("1 of 3 stores cannot be read.\n")
        }
        #expect(isUnhealthy, "\(RawConnection.get("/healthz", port: port))")
        run.send(SIGTERM)
        #expect(run.finish().status == 0)
        #expect(RawConnection(port: port) == nil)
    }

    @Test("it refuses other machines unless asked, a mistake in the file, and an address in use")
    func refusals() throws {
        let remote = try place.run(["serve-metrics", "--fleet", fleet.file, "--listen", "0.0.0.0:0"])
        #expect(remote.status == 64 && remote.errors.contains("--allow-remote"), "\(remote.errors)")
        #expect(try place.run(["serve-metrics", "--listen", "nowhere"]).status == 64)
        #expect(try place.run(["serve-metrics", "--fleet", place.path("no.toml")]).status == 64)
        try place.write("", to: "taken")
        let taken = try place.run(["serve-metrics", "--fleet", fleet.file, "--listen", "unix:\(place.path("taken"))"])
        #expect(taken.status == 64 && taken.errors.contains("cannot listen"), "\(taken.status) \(taken.errors)")
    }
}
