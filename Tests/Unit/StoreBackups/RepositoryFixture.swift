import CipherStore
import Foundation
import ObjectStorage
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreBackups

/// A store of some hundred pages, and a repository for its backups.
struct RepositoryFixture {
    let folder = TemporaryFolder()
    let store: SharedStore
    let repository: BackupRepository

    var path: String { folder.path("app.db") }
    var place: String { folder.path("place") }

    init(rows: Int = 400) throws {
        store = try SharedStore.open(at: folder.path("app.db"), unlockedBy: TestKeys.source("raw"))
        try store.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB)")
            for _ in 0..<rows { try db.execute(sql: "INSERT INTO note (body) VALUES (randomblob(3000))") }
        }
        try FileManager.default.createDirectory(atPath: folder.path("place"), withIntermediateDirectories: false)
        repository = try BackupRepository(creatingAt: folder.path("place"))
    }

    /// Changes one row in so many.
    func change(oneIn step: Int = 50) throws {
        try store.write {
            try $0.execute(sql: "UPDATE note SET body = randomblob(3000) WHERE id % \(step) = \(1 % step)")
        }
    }

    /// A digest of the rows that differs between any two contents.
    static func content(_ store: SharedStore) throws -> [String] {
        try store.read { try String.fetchAll($0, sql: "SELECT id || hex(substr(body, 1, 8)) FROM note ORDER BY id") }
    }

    /// Restores a backup to a new path and returns its rows.
    func restored(_ backup: StoredBackup, from repository: BackupRepository? = nil) throws -> [String] {
        let target = folder.path("restored-\(UUID().uuidString).db")
        try (repository ?? self.repository).restore(backup, to: target, unlockedBy: TestKeys.source("raw"))
        let store = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        #expect(try store.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"])
        return try Self.content(store)
    }

    func backup(_ id: ObjectHash) throws -> StoredBackup { try repository.backup(id.description) }

    /// The files of a kind of objects.
    func files(_ kind: ObjectKind) throws -> [String] {
        let folder = place + "/" + kind.rawValue
        guard FileManager.default.fileExists(atPath: folder) else { return [] }
        return try FileManager.default.contentsOfDirectory(atPath: folder).sorted().map { folder + "/" + $0 }
    }

    /// Stores a copy of the record of a backup with another sequence number, as somebody without the key can.
    ///
    /// - Parameter owner: The user who owns its file; nil for this user, and its mode then lets every user write it.
    ///
    /// - Parameter facts: The facts to claim; nil for the genuine ones.
    func forge(
        _ id: ObjectHash, sequence: UInt64, facts: BackupFacts? = nil, owner: uid_t?
    ) throws -> ObjectHash {
        let record = try backup(id).record
        let forged = BackupRecord(
            facts: facts ?? record.facts, sequence: sequence, wal: record.wal, parent: record.parent, map: record.map,
            sidecar: record.sidecar, keyLog: record.keyLog, library: record.library, packs: record.packs)
        let new = try repository.store(.backup, forged.sealed(DataKey.random()))
        let file = place + "/" + ObjectKind.backup.name(new)
        #expect(owner.map { chown(file, $0, $0) } ?? chmod(file, 0o666) == 0)
        return new
    }

    func flip(_ file: String, at offset: Int) throws {
        var bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file)))
        bytes[offset] ^= 1
        try Data(bytes).write(to: URL(fileURLWithPath: file))
    }
}

/// Expects a `StoreError` with this code.
func expectRefusal(
    _ code: StoreError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> some Any
) {
    let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation) { _ = try body() }
    #expect(error?.code == code, sourceLocation: sourceLocation)
}

/// A place, one of whose calls fails: before it is done, or after it is done, as if its answer was lost.
final class FaultyPlace: BackupPlace {
    private let place: FolderPlace
    private let failing: Int
    private let isDone: Bool
    private let calls = Atomic<Int>(0)

    init(_ path: String, failing: Int, isDone: Bool) {
        place = FolderPlace(path)
        self.failing = failing
        self.isDone = isDone
    }

    var count: Int { calls.load(ordering: .relaxed) }
    var description: String { place.description }

    private func call<T>(_ name: String, _ body: () throws -> T) throws -> T {
        let number = calls.wrappingAdd(1, ordering: .relaxed).newValue
        let fault = SystemError(call: name, path: place.path, errorNumber: EIO)
        if number == failing, !isDone { throw fault }
        let result = try body()
        if number == failing { throw fault }
        return result
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try call("put") { try place.put(name, bytes) } }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try call("get") { try place.get(name, limitBytes: limitBytes) }
    }
    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        try call("read") { try place.read(name, at: offset, byteCount: byteCount) }
    }
    func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject? {
        try call("attributed") { try place.attributed(name, limitBytes: limitBytes) }
    }
    func list(_ prefix: String) throws -> [ListedObject] { try call("list") { try place.list(prefix) } }
    func delete(_ name: String) throws { try call("delete") { try place.delete(name) } }
    func delete(_ names: [String]) throws { for name in names { try delete(name) } }
    func deleteUnneeded(_ names: [String]) throws -> Int {
        try delete(names)
        return 0
    }
    func removeUploads() throws -> Int { try call("removeUploads") { try place.removeUploads() } }
    func lockForUse(isWriting: Bool, _ isCancelled: () -> Bool) throws -> any PlaceLock {
        try call("lock") { try place.lockForUse(isWriting: isWriting, isCancelled) }
    }
    func lockForRemoval(_ isCancelled: () -> Bool) throws -> any PlaceLock {
        try call("lock") { try place.lockForRemoval(isCancelled) }
    }
}
