import Foundation
import TestKit
import Testing

/// `doctor` advised to remove `-restoring` and the folder `-replaced-...`, which held the only sidecar of the former data key:
/// who did it lost every row since the backup. `status` said `ready`.
@Suite("cipherctl restore, interrupted")
struct InterruptedRestorationTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeBackup()
    }

    /// A restoration that is killed at a crash point.
    private func restoration(killedAt point: String) throws {
        let outcome = try place.run(
            ["restore", place.path("b"), place.path("s.db"), "--replace", "--yes", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": point])
        try #require(outcome.status == 128 + SIGKILL, "\(outcome.status) \(outcome.errors)")
    }

    private func change(rotating: Bool) throws {
        if rotating { try #require(place.ctl("rotate", place.path("s.db"), "--no-backup").status == 0) }
        try #require(
            place.ctl("sql", place.path("s.db"), "INSERT INTO t VALUES (9999, 'since')", "--write").status == 0)
    }

    private func count(_ store: String) throws -> String {
        try place.ctl("sql", store, "SELECT count(*) FROM t", "--mode", "csv").output
    }

    /// The output of `status` and `doctor`, with the key and without.
    private func expectTold(at location: SourceLocation = #_sourceLocation) throws {
        let folder = try #require(try place.names().first { $0.hasPrefix("s.db-replaced-") })
        for key in [["--no-key"], ["--raw-key-file", place.key]] {
            let doctor = try place.run(["doctor", place.path("s.db"), "--json"] + key)
            #expect(doctor.status == 2, "\(doctor.output)\(doctor.errors)", sourceLocation: location)
            let findings = doctor.json["findings"] as? [[String: Any]] ?? []
            let urgent = findings.filter { $0["severity"] as? String != "note" }
            #expect(
                urgent.compactMap { $0["code"] as? String } == ["restorationInterrupted"], "\(urgent)",
                sourceLocation: location)
            let remedy = urgent.first?["remedy"] as? String ?? ""
            #expect(
                remedy.contains("cipherctl restore") && remedy.contains(folder), "\(remedy)", sourceLocation: location)
            #expect(
                !findings.contains { ($0["remedy"] as? String ?? "").hasPrefix("remove") }, "\(findings)",
                sourceLocation: location)
            let status = try place.run(["status", place.path("s.db"), "--json"] + key)
            #expect(status.status == 2, "\(status.output)\(status.errors)", sourceLocation: location)
            let attention = status.json["attention"] as? [String] ?? []
            #expect(
                attention.count == 1 && attention[0].contains("a restoration was interrupted"), "\(attention)",
                sourceLocation: location)
        }
    }

    /// The advice was to restore a backup, which removed the file: it had all rows since the backup.
    @Test("a database that somebody has given the name of a restoration's copy is named, and not removed")
    func renamedDatabase() throws {
        try change(rotating: false)
        let rows = try count(place.path("s.db"))
        try FileManager.default.moveItem(atPath: place.path("s.db"), toPath: place.path("s.db-restoring"))
        let opened = try place.ctl("sql", place.path("s.db"), "SELECT 1")
        #expect(opened.status == 65 && opened.errors.contains("s.db-restoring\" may be it"), "\(opened.errors)")
        let restored = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        #expect(restored.status == 64 && restored.errors.contains("mv -n "), "\(restored.errors)")
        try FileManager.default.moveItem(atPath: place.path("s.db-restoring"), toPath: place.path("s.db"))
        #expect(try count(place.path("s.db")) == rows)
    }

    /// In `make test` each place is passed with a rotation before it or without one, the next place the other way.
    private static let kills: [(String, Bool)] = [
        "restoreFormerKept", "restoreFormerRemoved", "fileRenamed:1", "restoreAnnounced",
    ].enumerated().flatMap { number, point in
        Sweep.sample([true, false], oneIn: 2, offset: number).map { (point, $0) }
    }

    @Test(
        "status and doctor report a restoration that was killed as the one problem, and it is run again",
        arguments: kills)
    func killed(point: String, rotating: Bool) throws {
        try change(rotating: rotating)
        let former = try count(place.path("s.db"))
        try restoration(killedAt: point)
        try expectTold()
        let refused = try place.ctl("key", "list", place.path("s.db"), "--json")
        #expect(refused.errors.contains("restoration") || refused.status == 0, "\(refused.errors)")
        #expect(!refused.errors.contains("cipherctl create"), "\(refused.errors)")
        let again = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        #expect(again.status == 0, "\(again.errors)")
        #expect(try count(place.path("s.db")).contains("3000"))
        let folder = try #require(try place.names().first { $0.hasPrefix("s.db-replaced-") })
        #expect(try count(place.path(folder) + "/s.db") == former)
        let doctor = try place.ctl("doctor", place.path("s.db"))
        #expect(
            doctor.status == 0 && doctor.output.contains("remove it when you no longer need it"), "\(doctor.output)")
    }

    @Test("one that was killed before it touched the store left a copy that may go")
    func prepared() throws {
        try restoration(killedAt: "restorePrepared")
        let doctor = try place.ctl("doctor", place.path("s.db"), "--json")
        let findings = doctor.json["findings"] as? [[String: Any]] ?? []
        #expect(
            findings.contains { $0["code"] as? String == "restorationLeftover" && $0["severity"] as? String == "risk" })
        #expect(try place.ctl("status", place.path("s.db")).status == 0)
        #expect(try count(place.path("s.db")).contains("3000"))
    }

    #if os(Linux)
        /// "What it had begun was taken back", and a lock file stayed.
        @Test("a restoration to a free place that fails leaves nothing there")
        func freePlace() throws {
            let run = try place.run(
                ["restore", place.path("b"), place.path("r.db"), "--raw-key-file", place.key],
                failing: CallFault(kinds: "write"), at: 1, of: "*r.db-restoring")
            #expect(run.wasHit && run.outcome.status == 74, "\(run.outcome.errors)")
            #expect(try place.names().filter { $0.hasPrefix("r.db") }.isEmpty)
        }

        @Test("status and doctor agree with a restoration that failed and could not put the former files back")
        func failed() throws {
            try change(rotating: false)
            func words(_ place: Workplace) -> [String] {
                [
                    "restore", place.path("b"), place.path("s.db"), "--replace", "--yes", "--json", "--raw-key-file",
                    place.key,
                ]
            }
            var interruptions = 0
            try FaultFixture.each(CallFault(kinds: "sync", isLasting: true), in: place, words) { fixture in
                let isInterrupted = fixture.outcome.errors.contains("until it is run again")
                let status = try fixture.place.run(["status", fixture.store, "--no-key"])
                let doctor = try fixture.place.run(["doctor", fixture.store, "--no-key"])
                #expect((status.status == 2) == isInterrupted, "\(status.output) \(fixture.story)")
                #expect((doctor.status == 2) == isInterrupted, "\(doctor.output) \(fixture.story)")
                if isInterrupted { interruptions += 1 }
            }
            #expect(interruptions > 0 || !CallFault.judgesAll)
        }
    #endif
}
