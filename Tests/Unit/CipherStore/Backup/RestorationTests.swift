import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Stores made from backups, beside others and in their place.
@Suite("Restorations")
struct RestorationTests {
    private func former(_ fixture: BackupFixture) throws -> String? {
        try fixture.names().first { $0.hasPrefix("app.db-replaced-") }.map { fixture.folder.path($0) }
    }

    @Test(
        "any file of a store at the place is a reason to refuse",
        arguments: ["", "-wal", "-shm", "-journal", "-sidecar", "-sidecar.bak", "-rotating"])
    func occupied(ending: String) throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        try fixture.write(Array("mine".utf8), to: fixture.restored + ending)
        try fixture.expect(.alreadyExists) { try fixture.restore() }
    }

    @Test(
        "a store is replaced, and its former files are a store in the folder beside it", arguments: KeyScheme.allCases)
    func replaced(scheme: KeyScheme) throws {
        let fixture = try BackupFixture(scheme)
        try fixture.backUp()
        let expected = try fixture.content(fixture.path)
        let store = try fixture.open()
        try store.write { try $0.execute(sql: "DELETE FROM note WHERE id > 10") }
        try store.close()
        let report = try fixture.restore(to: fixture.path, replacing: true)
        #expect(try fixture.content(fixture.path) == expected)
        let folder = try #require(report.formerFiles)
        #expect(try former(fixture).map { StorePaths($0).database } == StorePaths(folder).database)
        #expect(try fixture.content(folder + "/app.db").count == 10)
        #expect(try !fixture.names().contains("app.db-restoring"))
    }

    @Test("a log that was not folded in is kept with its database")
    func formerLog() throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        let actor = try ActorProcess()
        #expect(actor.ask("open \(fixture.path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("run DELETE FROM note WHERE id > 7") == "ok")
        actor.kill()
        #expect(try Files.byteCount(fixture.path + "-wal") ?? 0 > 0)
        let report = try fixture.restore(to: fixture.path, replacing: true)
        #expect(try fixture.content(fixture.path).count == BackupFixture.rows)
        #expect(try fixture.content(#require(report.formerFiles) + "/app.db").count == 7)
    }

    @Test("a store that is open, here or by a stock connection, is not replaced", arguments: ["store", "stock"])
    func open(who: String) throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        var store: SharedStore?
        var pool: DatabasePool?
        if who == "store" {
            store = try fixture.open()
        } else {
            // A pool takes no lease: only SQLite's own bytes tell of it.
            var configuration = Configuration()
            configuration.prepareDatabase { try $0.useRawKey(Data(TestKeys.rawKey)) }
            pool = try DatabasePool(path: fixture.path, configuration: configuration)
            _ = try pool?.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") }
        }
        let error = #expect(throws: StoreError.self) { try fixture.restore(to: fixture.path, replacing: true) }
        #expect(error?.code == .storeInUse)
        #expect(try former(fixture) == nil)
        #expect(try !fixture.names().contains("app.db-restoring"))
        try store?.close()
        try pool?.close()
        try fixture.restore(to: fixture.path, replacing: true)
    }

    @Test("a drill: written, backed up, destroyed, restored, the same")
    func drill() throws {
        let start = ContinuousClock.now
        let fixture = try BackupFixture()
        let expected = try fixture.content(fixture.path)
        try fixture.backUp()
        try fixture.write([UInt8](repeating: 0x55, count: 100_000), to: fixture.path)
        try fixture.write([1, 2, 3], to: fixture.path + "-sidecar")
        try FileManager.default.removeItem(atPath: fixture.path + "-sidecar.bak")
        #expect(throws: (any Error).self) { try fixture.open() }
        try fixture.restore(to: fixture.path, replacing: true)
        #expect(try fixture.content(fixture.path) == expected)
        print("restoration drill: \(ContinuousClock.now - start)")
    }

    @Test("a store whose files are all gone but one is replaced as well")
    func remains() throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        try FileManager.default.removeItem(atPath: fixture.path)
        try fixture.expect(.alreadyExists) { try fixture.restore(to: fixture.path) }
        let report = try fixture.restore(to: fixture.path, replacing: true)
        #expect(try fixture.content(fixture.path).count == BackupFixture.rows)
        let folder = try #require(report.formerFiles)
        #expect(FileManager.default.fileExists(atPath: folder + "/app.db-sidecar"))
    }

    // A letter of that name was removed once, and so was a link.
    @Test(
        "what is planted under the name of the copy is not written over, and not removed",
        arguments: ["folder", "pipe", "letter", "link", "second name"])
    func planted(kind: String) throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        let name = fixture.restored + "-restoring"
        switch kind {
        case "folder": try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: false)
        case "pipe": #expect(mkfifo(name, 0o600) == 0)
        case "letter": try fixture.write(Array("a letter that is mine".utf8), to: name)
        case "link": try FileManager.default.createSymbolicLink(atPath: name, withDestinationPath: fixture.path)
        default: try FileManager.default.linkItem(atPath: fixture.bundle + "/store.db", toPath: name)
        }
        let status = try Files.ownStatus(of: name)
        let error = #expect(throws: StoreError.self) { try fixture.restore() }
        #expect(error?.code == .alreadyExists && error?.what.contains("in the way") == true)
        #expect(try Files.ownStatus(of: name)?.identity == status?.identity)
    }

    // Another user put a folder there, with a link to the database. The restoration took it for its own, kept nothing
    // and removed the former files, and its report said that they were kept.
    @Test(
        "a folder of former files that another user can have made is not taken for the restoration's own",
        arguments: ["link", "shared", "linked folder"])
    func plantedFormer(kind: String) throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        let store = try fixture.open()
        try store.write { try $0.execute(sql: "DELETE FROM note WHERE id > 10") }
        try store.close()
        let planted = fixture.path + "-replaced-x"
        let manager = FileManager.default
        switch kind {
        case "link":
            try Files.makeDirectory(planted)
            try manager.createSymbolicLink(atPath: planted + "/app.db", withDestinationPath: "../app.db")
        case "shared":
            try Files.makeDirectory(planted)
            #expect(chmod(planted, 0o777) == 0)
            try fixture.write(Array("x".utf8), to: planted + "/app.db-sidecar")
            try manager.linkItem(atPath: fixture.path, toPath: planted + "/app.db")
        default:
            try Files.makeDirectory(fixture.folder.path("elsewhere"))
            try manager.createSymbolicLink(
                atPath: planted, withDestinationPath: fixture.folder.path("elsewhere"))
            try manager.linkItem(atPath: fixture.path, toPath: planted + "/app.db")
        }
        let report = try fixture.restore(to: fixture.path, replacing: true)
        let folder = try #require(report.formerFiles)
        #expect(Files.name(of: folder) != "app.db-replaced-x")
        try Files.remove(planted + "/app.db")
        #expect(try fixture.content(fixture.path).count == BackupFixture.rows)
        #expect(try fixture.content(folder + "/app.db").count == 10)
    }

    // The link was kept, which led nowhere from the folder.
    @Test("a sidecar that is a link is not kept aside as a file of the store")
    func linkedSidecar() throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        let elsewhere = fixture.folder.path("elsewhere")
        try FileManager.default.moveItem(atPath: fixture.path + "-sidecar", toPath: elsewhere)
        try FileManager.default.createSymbolicLink(
            atPath: fixture.path + "-sidecar", withDestinationPath: "elsewhere")
        try fixture.expect(.alreadyExists) { try fixture.restore(to: fixture.path, replacing: true) }
        #expect(try Files.kindOfName(fixture.path + "-sidecar") == .other && Files.exists(elsewhere))
        #expect(try former(fixture) == nil)
    }

    @Test("what a restoration that was cut left under the name of its copy is removed", arguments: [0, 100, 4096])
    func leftover(bytes: Int) throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        let start = try Array(fixture.bytes(fixture.bundle + "/store.db").prefix(bytes))
        try fixture.write(start, to: fixture.restored + "-restoring")
        try fixture.restore()
        #expect(try fixture.content(fixture.restored).count == BackupFixture.rows)
    }

    @Test(
        "all files of a store restored by root to a free place have the owner and mode of the backup's database",
        .enabled(if: geteuid() == 0, "needs root"))
    func owner() throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        #expect(chown(fixture.bundle + "/store.db", 1234, 1235) == 0 && chmod(fixture.bundle + "/store.db", 0o640) == 0)
        try fixture.restore()
        for ending in ["", "-sidecar", "-sidecar.bak", "-lock", "-wal", "-keylog"] {
            let status = try #require(try Files.ownStatus(of: fixture.restored + ending), "\(ending)")
            #expect(status.owner == 1234 && status.group == 1235, "\(ending)")
            #expect(status.permissions == 0o640, "\(ending): \(String(status.permissions, radix: 8))")
        }
    }

    @Test("that the store which is replaced is another one is told")
    func otherStore() throws {
        let (fixture, other) = (try BackupFixture(), try BackupFixture())
        try fixture.backUp()
        #expect(try fixture.restore(to: fixture.path, replacing: true).notices == [])
        let notices = try fixture.restore(to: other.path, replacing: true).notices
        #expect(notices.count == 1 && notices[0].contains("was another store"), "\(notices)")
    }

    @Test("a restored store has the mode of the store it replaces")
    func mode() throws {
        let fixture = try BackupFixture()
        try fixture.backUp()
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: fixture.path)
        try fixture.restore(to: fixture.path, replacing: true)
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.path + ending)
            #expect(attributes[.posixPermissions] as? Int == 0o640, "\(ending)")
        }
    }
}
