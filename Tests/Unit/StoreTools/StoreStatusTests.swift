import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

@testable import StoreTools

@Suite("The state of a store from a program")
struct StoreStatusTests {
    private let fixture = ToolFixture()

    init() throws { try fixture.makeStore() }

    @Test("without a key the report is what the sidecar claims, with one it is proved")
    func key() throws {
        let claimed = try StoreStatus(fixture.store).run()
        #expect(!claimed.isAuthenticated && claimed.state == .ready && claimed.isRolledBack == nil)
        let proved = try StoreStatus(fixture.store, unlockedBy: fixture.source).run()
        #expect(proved.isAuthenticated && proved.isRolledBack == false && proved.storeID == claimed.storeID)
        #expect(proved.keys?.epoch == 1 && proved.keys?.slots.count == 1 && proved.keys?.scheme == .slots)
        #expect(proved.attention == [] && proved.isInUse == false && proved.fileBytes == proved.pages * 4096)
        #expect(proved.dataKeyCreated != nil && proved.isKeyLogSound)
    }

    @Test("a bound for the age of backups is told of, and a copy of the sidecar that is missing")
    func attention() throws {
        var status = StoreStatus(fixture.store)
        status.policy.backupSeconds = 86_400
        #expect(try status.run().attention.contains { $0.contains("no verified backup") })
        try FileManager.default.removeItem(atPath: fixture.store + "-sidecar.bak")
        #expect(
            try StoreStatus(fixture.store).run().attention.contains { $0.contains("copy of the sidecar is missing") })
    }

    @Test("an examination finds what was left behind, and a key that does not fit, and goes on")
    func examination() throws {
        #expect(try !StoreExamination(fixture.store, unlockedBy: fixture.source).run().needsAttention)
        try Data("left".utf8).write(to: URL(fileURLWithPath: fixture.store + "-journal"))
        let wrong = KeySource.rawKey([UInt8](repeating: 1, count: 32))
        let report = try StoreExamination(fixture.store, unlockedBy: wrong).run()
        #expect(report.needsAttention && !report.status.isAuthenticated)
        #expect(report.findings.map(\.name).contains("journal"))
        #expect(report.findings.first?.name == "wrongKey" && report.findings.first?.severity == .problem)
    }

    // Story: every opening was refused, and both said that nothing needs attention.
    @Test("bytes after the last page need attention", arguments: [100, 4096, 40960])
    func bytesAtEnd(count: Int) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        try file.seekToEnd()
        try file.write(contentsOf: [UInt8](repeating: 0, count: count))
        try file.close()
        #expect(storeError { try fixture.openStore() } == .headerDamaged)
        for source in [nil, fixture.source] {
            let attention = try StoreStatus(fixture.store, unlockedBy: source).run().attention
            #expect(attention.count == 1, "\(attention)")
            #expect(attention.first?.hasPrefix("bytes 28 to 31 of the header count") == true)
            #expect(try StoreExamination(fixture.store, unlockedBy: source).run().needsAttention)
        }
    }

    // Story: no opening accepted the store, and both said that nothing needs attention.
    @Test("a second name of the database needs attention")
    func hardLinked() throws {
        try #require(link(fixture.store, fixture.path("second.db")) == 0)
        #expect(storeError { try fixture.openStore() } == .hardLinked)
        for source in [nil, fixture.source] {
            let attention = try StoreStatus(fixture.store, unlockedBy: source).run().attention
            #expect(attention.count == 1 && attention.first?.contains("2 names") == true, "\(attention)")
            let problems = try StoreExamination(fixture.store, unlockedBy: source).run().findings
                .filter { $0.severity == .problem }
            #expect(problems.count == 1, "\(problems)")
        }
    }

    @Test(
        "what is no regular file in the place of one of SQLite's needs attention, once",
        arguments: [
            "-journal", "-shm", "-wal",
        ])
    func noRegularFile(ending: String) throws {
        let path = fixture.store + ending
        for kind in ["pipe", "folder", "link to nothing"] {
            try? FileManager.default.removeItem(atPath: path)
            let made =
                switch kind {
                case "pipe": mkfifo(path, 0o600)
                case "folder": mkdir(path, 0o700)
                default: symlink("nothing", path)
                }
            try #require(made == 0)
            let attention = try StoreStatus(fixture.store, unlockedBy: fixture.source).run().attention
            #expect(attention.count == 1 && attention.first?.contains("not a regular file") == true, "\(attention)")
            let problems = try StoreExamination(fixture.store, unlockedBy: fixture.source).run().findings
                .filter { $0.severity == .problem }
            #expect(problems.count == 1, "\(problems)")
        }
    }

    @Test("a page 1 that is damaged in the file and intact in the WAL is no problem", arguments: [21, 99])
    func firstPageInWAL(offset: Int) throws {
        // Story: a checkpoint was interrupted there. The store opened, and status called it a problem.
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE other (a)") }
        let copy = fixture.path("copy.db")
        for ending in ["", "-wal", "-sidecar", "-sidecar.bak", "-keylog"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: copy + ending)
        }
        try store.close()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: copy))
        try file.seek(toOffset: UInt64(offset))
        try file.write(contentsOf: [65, 1, 2])
        try file.close()
        for source in [nil, fixture.source] {
            let attention = try StoreStatus(copy, unlockedBy: source).run().attention
            #expect(attention == [], "\(attention)")
            #expect(try !StoreExamination(copy, unlockedBy: source).run().needsAttention)
        }
        let report = try StoreVerification(copy, unlockedBy: fixture.source).run()
        #expect(report.isSound && report.supersededPages.count == (offset == 99 ? 1 : 0), "\(report.problems)")
        let opened = try SharedStore.open(at: copy, unlockedBy: fixture.source)
        #expect(try opened.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM other") } == 0)
        try opened.close()
    }

    @Test("without a sidecar, what to do depends on what the file is")
    func otherFiles() throws {
        let text = fixture.path("text")
        try Data("no database".utf8).write(to: URL(fileURLWithPath: text))
        try fixture.makePlain()
        let (plain, standard) = (ToolFixture(), ToolFixture())
        try plain.makePlain()
        try standard.makeStandard()
        for (path, command) in [(text, nil), (plain.plain, "cipherctl import"), (standard.store, "cipherctl adopt")] {
            let report = try StoreExamination(path).run()
            let remedy = report.findings.first { ["noStore", "sidecarMissing"].contains($0.name) }?.remedy ?? ""
            #expect(!remedy.isEmpty && remedy.contains("cipherctl") == (command != nil), "\(remedy)")
            if let command { #expect(remedy.contains(command), "\(remedy)") }
        }
    }

    @Test("a key file that others may read is a problem")
    func keyFile() throws {
        let path = fixture.path("app.key")
        try Data(TestKeys.rawKey).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        var examination = StoreExamination(fixture.store, unlockedBy: .rawKeyFile(path: path))
        examination.keyFile = path
        #expect(try examination.run().findings.map(\.name).contains("keyFileShared"))
    }
}

@Suite("Known bugs of the library")
struct KnownBugTests {
    private func names(sqlite: String, sqlCipher: String? = "4.6.1 community") -> [String] {
        KnownBug.affecting(sqlite: sqlite, sqlCipher: sqlCipher).map(\.name)
    }

    @Test("the bugs of a library are those of its version, from the first that has them to the one that mended them")
    func knownBugs() {
        #expect(names(sqlite: "3.51.2").contains("WAL-reset"))
        #expect(!names(sqlite: "3.51.3").contains("WAL-reset"))
        #expect(names(sqlite: "3.46.1").contains("CVE-2025-29087"))
        #expect(!names(sqlite: "3.43.0").contains("CVE-2025-29087"))
        #expect(!names(sqlite: "3.49.1").contains("CVE-2025-29087"))
        #expect(names(sqlite: "3.9.0").contains("CVE-2025-6965"))
        #expect(names(sqlite: "3.60.0", sqlCipher: "4.4.0 community") == ["CVE-2020-27207"])
        #expect(names(sqlite: "3.60.0", sqlCipher: "4.4.1 community").isEmpty)
        #expect(names(sqlite: "3.60.0", sqlCipher: nil).isEmpty)
    }

    @Test("each known bug says where it is described, and is a note")
    func sources() {
        for bug in KnownBug.all {
            #expect(bug.source.hasPrefix("https://"))
            #expect(bug.finding.severity == .note)
            #expect(bug.since.map { $0 < bug.fixedIn } ?? true)
        }
    }
}
