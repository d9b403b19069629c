import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@Suite("cipherctl adopt, refused or cut")
struct AdoptRefusalTests {
    private let fixture: AdoptionFixture
    private var place: Workplace { fixture.place }

    init() throws { fixture = try AdoptionFixture() }

    // MARK: What is no database to adopt

    private func expectRefusal(
        _ status: Int32, _ code: String, _ mentions: String, key: String? = nil, more: String...,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = FolderSnapshot(of: place.folder)
        let outcome = try place.run(
            ["adopt", place.path("s.db"), "--json", "--raw-key-file", key ?? place.key] + more)
        #expect(outcome.status == status, "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errorJSON["code"] as? String == code, sourceLocation: location)
        #expect(outcome.errors.contains(mentions), "\(outcome.errors)", sourceLocation: location)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty, sourceLocation: location)
    }

    @Test("a path that names nothing, a directory, an empty file and a text are refused, each by name")
    func strangers() throws {
        try expectRefusal(66, "noSuchFile", "There is no file")
        try FileManager.default.createDirectory(atPath: place.path("s.db"), withIntermediateDirectories: false)
        try expectRefusal(64, "notRegular", "It is a directory")
        try place.remove("s.db")
        try place.write("", to: "s.db")
        try expectRefusal(65, "notAdoptable", "It has no bytes")
        try place.write(String(repeating: "Dear diary. ", count: 1000), to: "s.db")
        try expectRefusal(65, "notAdoptable", "It is not an encrypted database")
    }

    // Story: "the key does not open it", "for a file of SQLCipher 1 give --compatibility 1", which was given.
    @Test("a file of a later version that is given as one of version 1 is named by its version")
    func laterVersion() throws {
        try fixture.makeStandard("s.db")
        try expectRefusal(64, "otherVersion", "is a file of SQLCipher 4", more: "--compatibility", "1")
    }

    // Story: "It is not an encrypted database. Check the path".
    @Test("a file that was cut within a page is truncated, if the key opens its first page")
    func cutPage() throws {
        try fixture.makeStandard("s.db")
        try place.truncate("s.db", to: 3 * 4096 + 12)
        try expectRefusal(65, "truncated", "The end of")
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("other.key"))
        try expectRefusal(65, "notAdoptable", "Its length is that of no database", key: place.path("other.key"))
    }

    @Test("plain SQLite is shown the way to import")
    func plain() throws {
        try place.makePlain("CREATE TABLE t (a)", as: "s.db")
        try expectRefusal(65, "notAdoptable", "cipherctl import")
    }

    @Test("what is a store already, and one that lost its sidecar, are refused")
    func stores() throws {
        try place.makeStore()
        try expectRefusal(64, "alreadyStore", "is a store already")
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        try expectRefusal(65, "saltMissing", "there is no sidecar")
    }

    /// The store that it became was refused by every opener, with the advice to destroy it.
    @Test("a standard file that was put where a destruction was interrupted is refused until that is settled")
    func interruptedDestruction() throws {
        try fixture.makeStandard("s.db")
        try place.write("former", to: "s.db-destroying")
        try expectRefusal(64, "alreadyExists", "s.db-destroying")
        try place.remove("s.db-destroying")
        #expect(try fixture.adopt("s.db").status == 0)
        #expect(try fixture.storeRows("s.db").count == 500)
    }

    @Test("a standard file beside the sidecar of another store is refused")
    func foreignSidecar() throws {
        try place.makeStore()
        try fixture.makeStandard("other.db")
        try place.copy("other.db", to: "s.db")
        try expectRefusal(65, "foreignSidecar", "beside the sidecar of a store")
    }

    @Test("a wrong key is refused, and nothing is made")
    func wrongKey() throws {
        try fixture.makeStandard("s.db")
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 1, count: 32), to: other)
        try expectRefusal(77, "wrongKey", "The key does not open", key: other)
        try expectRefusal(64, "otherVersion", "Leave out --compatibility", more: "--compatibility", "3")
        try expectRefusal(64, "usage", "no such version", more: "--compatibility", "5")
    }

    @Test("a damaged database is refused, and nothing is left beside it")
    func damagedPage() throws {
        try fixture.makeStandard("s.db", journal: "DELETE")
        try place.poke("s.db", at: 5000, [try place.bytes("s.db")[5000] ^ 1])
        try expectRefusal(65, "pageDamaged", "is damaged")
    }

    // MARK: In use

    @Test("a database that another connection has open in WAL mode is in use", arguments: ["WAL", "DELETE"])
    func inUse(_ journal: String) throws {
        try fixture.makeStandard("s.db", journal: journal)
        let before = try place.bytes("s.db")
        let queue = try fixture.openStandard("s.db")
        // It has read and is idle: in rollback mode it holds no lock at all.
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 500)
        let outcome = try fixture.adopt("s.db")
        #expect(outcome.status == 69, "\(outcome.errors)")
        #expect(outcome.errorJSON["code"] as? String == "storeInUse")
        try queue.write { try $0.execute(sql: "INSERT INTO t (text) VALUES ('later')") }
        try queue.close()
        // The queue has made the lock file.
        let left = ["sidecar", "adopting"]
        #expect(try place.names().filter { name in left.contains { name.contains($0) } }.isEmpty)
        #expect(try place.bytes("s.db").count >= before.count)
        #expect(try fixture.standardRows("s.db").last == "later")
        #expect(try fixture.adopt("s.db").status == 0)
    }

    @Test(
        "a refusal gives a database back the log mode that it had",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/fd"), "needs /proc"))
    func restoresLog() throws {
        try fixture.makeStandard("s.db", journal: "WAL")
        // A program that only holds the file open, without a lock.
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: place.path("s.db")))
        let outcome = try fixture.adopt("s.db")
        #expect(outcome.status == 69)
        #expect(outcome.errors.contains("Process \(ProcessInfo.processInfo.processIdentifier) ("))
        try handle.close()
        let queue = try fixture.openStandard("s.db")
        #expect(try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
        try queue.close()
    }

    // MARK: Kills

    private static let places =
        CrashPoint.ofAdoption + [.temporaryFileWritten, .fileRenamed, .sidecarMainWritten, .sidecarWritten]

    /// In `make test` each place has one of the two modes, the next place the other one.
    private static let kills = places.enumerated().flatMap { number, place in
        Sweep.sample(["WAL", "DELETE"], oneIn: 2, offset: number).map { (place, $0) }
    }

    @Test(
        "killed at any place, the file opens as before or as a store, and the same command completes it",
        arguments: kills)
    func killed(_ point: CrashPoint, _ journal: String) throws {
        try fixture.makeStandard("s.db", journal: journal)
        let rows = try fixture.standardRows("s.db")
        let arguments = ["adopt", place.path("s.db"), "--raw-key-file", place.key]
        let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": point.rawValue])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")

        let isStore = [.adoptionRenamed, .adoptionEnded].contains(point)
        #expect(try isStore ? fixture.storeRows("s.db") == rows : fixture.standardRows("s.db") == rows)
        if !isStore { #expect(throws: StoreError.self) { try fixture.openStore("s.db") } }

        let again = try place.run(arguments)
        // A store that was opened since is complete, too.
        #expect(again.status == 0, "\(again.errors)")
        #expect(try fixture.storeRows("s.db") == rows)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
        #expect(try place.ctl("status", place.path("s.db")).status == 0)
        #expect(try leftover().isEmpty)
    }

    private func leftover() throws -> Set<String> { try place.names().filter { $0.contains("adopting") } }

    @Test("killed behind the rename, the same command completes the adoption")
    func completes() throws {
        try fixture.makeStandard("s.db")
        let rows = try fixture.standardRows("s.db")
        let arguments = ["adopt", place.path("s.db"), "--raw-key-file", place.key, "--json"]
        let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": "adoptionRenamed"])
        try #require(killed.status == 128 + SIGKILL)
        let again = try place.run(arguments)
        #expect(again.status == 0, "\(again.errors)")
        #expect(again.json["completed_earlier_adoption"] as? Bool == true)
        #expect(try place.events() == ["store-created", "adopted"])
        #expect(try fixture.storeRows("s.db") == rows)
        #expect(try leftover().isEmpty)
    }

    // In `make test` at every other place.
    @Test(
        "an older version that is killed at any place is not lost",
        arguments: Sweep.sample(CrashPoint.ofAdoption, oneIn: 2))
    func killedOlder(_ point: CrashPoint) throws {
        try place.write("test only: sesame street", to: "pass")
        try FileManager.default.copyItem(atPath: Workplace.fixture("v3-standard.db"), toPath: place.path("s.db"))
        let original = try place.bytes("s.db")
        let key = ["--key-file", place.path("pass")]
        let arguments = ["adopt", place.path("s.db"), "--compatibility", "3"] + key
        let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": point.rawValue])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let isStore = [.adoptionRenamed, .adoptionEnded].contains(point)
        #expect(try place.bytes(isStore ? "s.db.sqlcipher3" : "s.db") == original)
        let again = try place.run(arguments)
        #expect(again.status == 0, "\(again.errors)")
        #expect(try place.bytes("s.db.sqlcipher3") == original)
        let rows = try place.run(["sql", place.path("s.db"), "SELECT count(*) AS n FROM note", "--mode", "csv"] + key)
        #expect(rows.output == "n\r\n4\r\n", "\(rows.errors)")
    }
}
