import CipherStore
import Foundation
import TestKit
import Testing

/// A database that somebody removed from beside its sidecar.
///
/// SQLite made an empty file in its place, and the error then was that it "has no bytes"; the command line said to create
/// the store.
@Suite("A database that is gone")
struct MissingDatabaseTests {
    private func removeDatabase(_ fixture: StoreFixture, endings: [String] = ["", "-wal", "-shm"]) throws {
        for ending in endings { try? FileManager.default.removeItem(atPath: fixture.path + ending) }
    }

    @Test("every way of opening says that it is gone, and makes nothing in its place", arguments: Opening.allCases)
    func gone(way: Opening) throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes()
        try removeDatabase(fixture)
        let before = FolderSnapshot(of: fixture.folder)
        let error = #expect(throws: StoreError.self) { try way.open(fixture.path, fixture.key) { _ in } }
        #expect(error?.code.name == "databaseMissing", "\(String(describing: error))")
        #expect(error?.what.contains("is gone") == true && error?.remedy.contains("backup") == true)
        #expect(before.changes(until: FolderSnapshot(of: fixture.folder)).allSatisfy { $0.hasSuffix("-lock") })
        try fixture.write(whole)
        fixture.expectWhole()
    }

    @Test("one copy of the sidecar is enough to know", arguments: ["-sidecar", "-sidecar.bak"])
    func oneCopy(ending: String) throws {
        let fixture = try StoreFixture()
        try removeDatabase(fixture, endings: ["", "-wal", "-shm", ending])
        let error = #expect(throws: StoreError.self) {
            try Opening.sharedStore.open(fixture.path, fixture.key) { _ in }
        }
        #expect(error?.code.name == "databaseMissing", "\(String(describing: error))")
        #expect(!FileManager.default.fileExists(atPath: fixture.path))
    }

    @Test("a reader is told the same, instead of that there is no store yet")
    func reading() throws {
        let fixture = try StoreFixture()
        try removeDatabase(fixture)
        let error = #expect(throws: StoreError.self) {
            _ = try SharedStore.openReadOnly(at: fixture.path, unlockedBy: fixture.key.source)
        }
        #expect(error?.code.name == "databaseMissing", "\(String(describing: error))")
        var config = Configuration()
        config.readonly = true
        let byHand = #expect(throws: StoreError.self) {
            try Opening.pool.open(fixture.path, fixture.key, config) { _ in }
        }
        #expect(byHand?.code.name == "databaseMissing", "\(String(describing: byHand))")
    }

    @Test("without a sidecar, or beside one whose store was still being created, a store is made")
    func created() throws {
        let fixture = try StoreFixture()
        try removeDatabase(fixture, endings: ["", "-wal", "-shm", "-sidecar", "-sidecar.bak"])
        for way in Opening.allCases {
            try way.open(fixture.folder.path("\(way).db"), .raw(2)) { _ in }
        }
        try Opening.sharedStore.open(fixture.path, fixture.key) { store in
            try store.write { try $0.execute(sql: "CREATE TABLE fresh (a)") }
        }
    }
}
