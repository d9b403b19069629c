import Foundation
import StorePlatform
import TestKit
import Testing

/// The sentences of commands about an adoption that was interrupted. The story: one that had converted the file already
/// was described as a store that was never created ("make the store with `cipherctl create`", code 66), while all rows
/// were there.
@Suite("cipherctl adopt, interrupted")
struct InterruptedAdoptionTests {
    private let fixture: AdoptionFixture
    private var place: Workplace { fixture.place }
    private var store: String { place.path("s.db") }

    init() throws {
        fixture = try AdoptionFixture()
        try fixture.makeStandard("s.db")
    }

    private func kill(at point: CrashPoint) throws {
        let killed = try place.run(
            ["adopt", store, "--raw-key-file", place.key], environment: ["CIPHERSTORE_CRASH_AT": point.rawValue])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
    }

    @Test(
        "once the file is converted it is read, whatever its sidecar says, and every opening for writing completes it")
    func converted() throws {
        try kill(at: .adoptionRenamed)
        let before = FolderSnapshot(of: place.folder)
        let sql = try place.ctl("sql", store, "SELECT count(*) AS n FROM t", "--json")
        #expect(sql.status == 0 && sql.output.contains("{\"n\": 500}"), "\(sql.errors)")
        #expect(sql.errors.contains("its adoption was interrupted after the file was converted"), "\(sql.errors)")
        for command in ["verify", "hash"] {
            let outcome = try place.ctl(command, store)
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
        }
        // Reading makes an index beside a file in WAL mode; the file and its sidecar stay.
        let changed = before.changes(until: FolderSnapshot(of: place.folder))
        #expect(
            changed.allSatisfy { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") || $0.hasSuffix("-lock") }, "\(changed)")
        let status = try place.ctl("status", store)
        #expect(
            status.status == 2 && status.output.contains("an adoption was interrupted after it had converted the file"))
        #expect(!status.output.contains("cipherctl create"), "\(status.output)")
        let doctor = try place.ctl("doctor", store)
        #expect(doctor.status == 2 && !doctor.output.contains("cipherctl create"), "\(doctor.output)")
        let written = try place.ctl("sql", store, "DELETE FROM t WHERE id = 1", "--write")
        #expect(written.status == 0, "\(written.errors)")
        #expect(try place.ctl("status", store).status == 0)
        #expect(try fixture.storeRows("s.db").count == 499)
    }

    @Test("a change of the keys completes it, too")
    func keyChange() throws {
        try kill(at: .adoptionRenamed)
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("new.key"))
        let changed = try place.ctl(
            "key", "convert", store, "--to", "slots", "--new-raw-key-file", place.path("new.key"))
        #expect(changed.status == 0, "\(changed.errors)")
        let sql = try place.ctl("sql", store, "SELECT count(*) AS n FROM t", "--json", key: place.path("new.key"))
        #expect(sql.output.contains("{\"n\": 500}"), "\(sql.errors)")
    }

    @Test("before the file is converted everybody says that it is as before, and what to run")
    func announced() throws {
        try kill(at: .adoptionAnnounced)
        for command in [
            ["sql", store, "SELECT 1"], ["verify", store], ["hash", store], ["backup", store, place.path("b")],
        ] {
            let outcome = try place.run(command + ["--raw-key-file", place.key, "--json"])
            #expect(outcome.status == 65, "\(command): \(outcome.errors)")
            #expect(outcome.errors.contains("cipherctl adopt"), "\(command): \(outcome.errors)")
            #expect(!outcome.errors.contains("cipherctl create"), "\(command): \(outcome.errors)")
        }
        let status = try place.run(["status", store, "--no-key"])
        #expect(status.status == 2 && status.output.contains("an adoption was interrupted before it changed the file"))
        #expect(!status.output.contains("cipherctl create"), "\(status.output)")
        #expect(try fixture.standardRows("s.db").count == 500)
        #expect(try fixture.adopt("s.db").status == 0)
    }

    @Test("a store that was created no further than its first page is still none for a reader")
    func created() throws {
        let path = place.path("new.db")
        let killed = try place.run(
            ["create", path, "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": CrashPoint.firstPageWritten.rawValue])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let sql = try place.ctl("sql", path, "SELECT 1")
        #expect(sql.status == 66 && sql.errors.contains("cipherctl create"), "\(sql.errors)")
    }
}
