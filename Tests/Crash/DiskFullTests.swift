import CipherStore
import Foundation
import TestKit
import Testing

/// A filesystem that is full while a store is created or written: no incomplete file blocks the next attempt.
@Suite(.serialized) struct DiskFullTests {
    private static let reason: Comment = "mounting a small filesystem needs root and the right to mount"

    @Test(
        "a creation that runs out of space can be repeated once there is some, wherever it stopped",
        .enabled(if: SmallDisk.isPossible, reason), arguments: [0, 4, 8, 12, 16, 32, 64])
    func creating(freeKilobytes: Int) throws {
        try expectRepeatable("open", "raw", freeKilobytes)
    }

    @Test(
        "a creation by hand that runs out of space can be repeated", .enabled(if: SmallDisk.isPossible, reason),
        arguments: [0, 4, 12, 32])
    func creatingByHand(freeKilobytes: Int) throws {
        try expectRepeatable("open-pool", "secret", freeKilobytes)
    }

    private func expectRepeatable(_ command: String, _ key: String, _ freeKilobytes: Int) throws {
        let disk = try SmallDisk(kilobytes: 512)
        try disk.fill(leaving: freeKilobytes)
        let path = disk.path("app.db")
        let first = try ActorProcess().ask("\(command) \(path) \(key)") ?? "died"
        #expect(first.hasPrefix("error"), "\(first)")
        let isSpace =
            first.contains("No space left") || first.contains("SQLite error 13") || first.contains("SQLite error 10")
        #expect(isSpace, "\(first)")

        try disk.makeRoom()
        let next = try ActorProcess()
        let answer = next.ask("\(command) \(path) \(key)") ?? "died"
        #expect(answer.hasPrefix("ok"), "\(answer)")
        #expect(next.ask("count migrated") == "ok 1")
        #expect(next.ask("mark 2") == "ok")
        #expect(next.ask("check") == "ok ok")
        next.end()
        let copies = ["-sidecar", "-sidecar.bak"].map { FileManager.default.contents(atPath: path + $0) }
        #expect(copies[0] != nil && copies[0] == copies[1])
        #expect(disk.strayFiles.isEmpty)
    }

    @Test(
        "a store on a full disk keeps what was committed, says that the disk is full, and goes on when it is not",
        .enabled(if: SmallDisk.isPossible, reason))
    func writing() throws {
        let disk = try SmallDisk(kilobytes: 1024)
        let path = disk.path("app.db")
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a BLOB)") }
        var committed = 0
        var failure: (any Error)?
        while failure == nil, committed < 10_000 {
            do {
                try store.write { try $0.execute(sql: "INSERT INTO t VALUES (randomblob(9000))") }
                committed += 1
            } catch {
                failure = error
            }
        }
        let code = (failure as? DatabaseError)?.resultCode
        #expect(code == .SQLITE_FULL || code == .SQLITE_IOERR, "\(String(describing: failure))")
        #expect(try count(store) == committed)
        // A second opening on the full disk does no damage, either.
        let second = try? SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        if let second { #expect(try count(second) == committed) }
        try second?.close()
        try disk.grow(kilobytes: 8192)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (randomblob(9000))") }
        #expect(try count(store) == committed + 1)
        try store.close()
        let again = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        #expect(try count(again) == committed + 1)
        #expect(try again.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        try again.close()
    }

    @Test(
        "a recorded transaction for which there is no room leaves neither a change nor its record, and others follow it",
        .enabled(if: SmallDisk.isPossible, reason))
    func recording() throws {
        let disk = try SmallDisk(kilobytes: 1024)
        let store = try SharedStore.open(at: disk.path("app.db"), unlockedBy: TestKeys.source("raw"))
        let token = try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a BLOB)")
            try db.recordHistory(of: .allTables)
            return try db.historyToken()
        }
        var failure: (any Error)?
        while failure == nil {
            do {
                try store.write { db in
                    try db.execute(sql: "INSERT INTO t (a) VALUES (randomblob(9000))")
                    try db.execute(sql: "UPDATE t SET a = randomblob(9000) WHERE id = (SELECT max(id) FROM t)")
                }
            } catch {
                failure = error
            }
            if try count(store) > 10_000 { break }
        }
        let code = (failure as? DatabaseError)?.resultCode
        #expect(code == .SQLITE_FULL || code == .SQLITE_IOERR, "\(String(describing: failure))")
        func expectHistory() throws {
            let ids = try store.read { try Int64.fetchAll($0, sql: "SELECT id FROM t ORDER BY id") }
            let changes = try store.history(since: token, limit: 100_000).transactions
            #expect(changes.map { $0.changes.map(\.kind) } == ids.map { _ in [.inserted, .updated] })
            #expect(changes.map { $0.changes.compactMap(\.rowID) } == ids.map { [$0, $0] })
        }
        try expectHistory()
        try disk.grow(kilobytes: 8192)
        try store.write { db in
            try db.execute(sql: "INSERT INTO t (a) VALUES (1); UPDATE t SET a = 2 WHERE a = 1")
        }
        try expectHistory()
        try store.close()
    }

    @Test(
        "a backup and a restoration for which there is no room say so, leave nothing, and succeed once there is some",
        .enabled(if: SmallDisk.isPossible, reason), arguments: [0, 16, 100, 300])
    func backups(freeKilobytes: Int) throws {
        let disk = try SmallDisk(kilobytes: 2048)
        let folder = TemporaryFolder()
        let store = try SharedStore.open(at: folder.path("app.db"), unlockedBy: TestKeys.source("raw"))
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a BLOB)")
            for _ in 0..<50 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(9000))") }
        }
        try disk.fill(leaving: freeKilobytes)
        #expect(throws: SystemError.self) { try store.backup(toFolder: disk.path("backup")) }
        #expect(FolderSnapshot(of: disk.folder).names.allSatisfy { !$0.contains("backup") })
        try disk.makeRoom()
        try store.backup(toFolder: disk.path("backup"))
        try store.close()
        try disk.fill(leaving: freeKilobytes)
        let path = disk.path("restored.db")
        #expect(throws: SystemError.self) {
            try SharedStore.restore(from: disk.path("backup"), to: path, unlockedBy: TestKeys.source("raw"))
        }
        #expect(
            FolderSnapshot(of: disk.folder).names.filter { $0.contains("restored") && !$0.hasSuffix("-lock") } == [])
        try disk.makeRoom()
        try SharedStore.restore(from: disk.path("backup"), to: path, unlockedBy: TestKeys.source("raw"))
        #expect(StoreProof.problems(path).isEmpty)
    }

    private func count(_ store: SharedStore) throws -> Int {
        try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") ?? 0 }
    }
}

/// A filesystem in memory of a few hundred kilobytes, unmounted when the test ends.
private final class SmallDisk {
    let folder = TemporaryFolder()
    private var filler: String { path("filler") }

    /// Whether this process may mount one.
    static let isPossible: Bool = {
        guard geteuid() == 0 else { return false }
        return (try? SmallDisk(kilobytes: 64)) != nil
    }()

    init(kilobytes: Int) throws {
        try run("mount", "-t", "tmpfs", "-o", "size=\(kilobytes)k,mode=755", "tmpfs", folder.url.path)
    }

    deinit { try? run("umount", "-l", folder.url.path) }

    func path(_ name: String) -> String { folder.path(name) }

    /// Files that neither a store nor this object should leave.
    var strayFiles: [String] {
        let endings = ["db", "db-wal", "db-shm", "db-lock", "db-sidecar", "db-sidecar.bak", "db-keylog"]
        return FolderSnapshot(of: folder).names.filter { name in !endings.contains { name.hasSuffix("." + $0) } }
    }

    /// Uses all space except this much.
    func fill(leaving kilobytes: Int) throws {
        let handle = try open(filler)
        let page = [UInt8](repeating: 1, count: 4096)
        while page.withUnsafeBytes({ write(handle, $0.baseAddress, $0.count) }) == page.count {}
        let size = lseek(handle, 0, SEEK_END)
        ftruncate(handle, max(0, size - off_t(kilobytes) * 1024))
        close(handle)
    }

    func makeRoom() throws { try FileManager.default.removeItem(atPath: filler) }

    func grow(kilobytes: Int) throws {
        try run("mount", "-o", "remount,size=\(kilobytes)k", folder.url.path)
    }

    private func open(_ path: String) throws -> Int32 {
        let handle = Foundation.open(path, O_CREAT | O_WRONLY, 0o600)
        guard handle >= 0 else { throw CocoaError(.fileWriteUnknown) }
        return handle
    }

    private func run(_ words: String...) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.featureUnsupported) }
    }
}
