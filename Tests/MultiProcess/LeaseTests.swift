import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// The traces of an open store that other processes can see: its lease, its WAL, and nothing with the wrong library.
@Suite struct LeaseTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    /// Whether no process has the store open.
    private func isFree() throws -> Bool {
        let file = try LockFile(path: path + "-lock", likeFile: nil)
        return storeError { try file.lock(.lease, .exclusive, deadline: .now).release() } == nil
    }

    @Test("an open store holds a lease that others share, until it is closed or its process is killed")
    func lease() throws {
        let store = try SharedStore.open(at: path, unlockedBy: source)
        #expect(try !isFree())
        let other = try ActorProcess()
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        try store.close()
        #expect(try !isFree(), "the other process has one too")
        other.kill()
        #expect(try isFree())
        let reader = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: source))
        #expect(try !isFree(), "reading alone takes one too")
        try reader.close()
        #expect(try isFree())
    }

    @Test("the last close of a store leaves an empty log and its index, for those who may not make them")
    func persistentLog() throws {
        let one = try SharedStore.open(at: path, unlockedBy: source)
        let two = try SharedStore.open(at: path, unlockedBy: source)
        try one.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try one.close()
        try two.close()
        let log = try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int
        #expect(log == 0)
        #expect(FileManager.default.fileExists(atPath: path + "-shm"))
    }

    private static let plainSQLite = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]
        .map { $0 + "/libsqlite3.so.0" }.first { FileManager.default.fileExists(atPath: $0) }

    @Test(
        "a process that runs with plain SQLite in SQLCipher's place is refused before any file is made",
        .enabled(if: plainSQLite != nil, "no plain SQLite on this machine to put there"))
    func unsupportedLibrary() throws {
        let process = try ActorProcess(environment: ["LD_PRELOAD": Self.plainSQLite ?? ""])
        let answer = process.ask("open \(path) raw")
        #expect(answer?.hasPrefix("error unsupportedLibrary") == true, "\(answer ?? "no answer")")
        #expect(answer?.contains("without encryption") == true)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(!FileManager.default.fileExists(atPath: path + "-sidecar"))
    }
}
