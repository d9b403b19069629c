import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import KeyCustody

/// FileKeys that follow one another: reopening a store whose file was exchanged.
@Suite struct FileKeyTests {
    private func pool(_ path: String, _ fileKey: FileKey, _ key: KeyOrigin) throws -> DatabasePool {
        try DatabasePool(path: path, configuration: Configuration(), fileKey: fileKey, key: key)
    }

    private func opened(_ path: String, _ source: KeySource) throws -> FileKey {
        let fileKey = FileKey(path: path, configuration: Configuration())
        try pool(path, fileKey, .secret(source.read(), creatingWith: .plaintextHeader)).close()
        return fileKey
    }

    private func count(_ path: String, _ fileKey: FileKey) throws -> Int? {
        let pool = try pool(path, fileKey, .knownKeys)
        defer { try? pool.close() }
        return try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") }
    }

    @Test("a successor opens with the keys in memory, whatever became of the slots, and derives nothing")
    func slots() throws {
        let fixture = try KeyslotFixture()
        try fixture.add("passphrase")
        let fileKey = try opened(fixture.path, .passphrase("passphrase"))
        #expect(fileKey.keys?.openedBy?.id == 2 && fileKey.pageKey != nil)
        try fixture.withStore { try $0.keys.remove(2) }
        let derivations = KeyWork.derivations
        let successor = fileKey.successor()
        #expect(successor.opening.suspension === fileKey.opening.suspension && successor.keys == nil)
        #expect(try count(fixture.path, successor) == 1)
        #expect(KeyWork.derivations == derivations)
        #expect(successor.sidecar?.slots.count == 1)
        // And so on, also when one was never opened.
        #expect(try count(fixture.path, successor.successor().successor()) == 1)
    }

    @Test("a successor takes the data key of the epoch that the sidecar has")
    func otherEpoch() throws {
        let fixture = try KeyslotFixture()
        let fileKey = try opened(fixture.path, KeyslotFixture.first.source)
        let files = SidecarFiles(databasePath: fixture.path)
        let keys = try #require(fileKey.keys)
        let former = try #require(fileKey.sidecar)
        let next = try former.rotating(to: DataKey(.random(count: 32)), salt: .random(), keys: keys, next: keys)
        var switching = try next.announcingSwitch(pages: 1)
        try files.write(switching, keys: keys)
        // Between announcement and exchange nobody can tell which file it is.
        #expect(storeError { try count(fixture.path, fileKey.successor()) } == .rotationPending)
        #expect(storeError { try Opening.pool.open(fixture.path, KeyslotFixture.first) { _ in } } == .rotationPending)
        switching = try #require(switching.successor)
        try files.write(switching, keys: keys)
        // The sidecar's data key is another one now, the file is not: it belongs to the former one.
        #expect(storeError { try count(fixture.path, fileKey.successor()) } == .foreignSidecar)
    }

    @Test("a successor whose keys do not fit any more says keyRotated")
    func rotatedAway() throws {
        for scheme in KeyScheme.allCases {
            let folder = TemporaryFolder()
            var config = Configuration()
            config.keyScheme = scheme
            let source = KeySource.rawKey(TestKeys.rawKey)
            try SharedStore.open(at: folder.path("app.db"), unlockedBy: source, configuration: config).close()
            let fileKey = try opened(folder.path("app.db"), source)
            var other = try #require(fileKey.sidecar)
            other.generation += 1
            other.epoch += 1
            let key = try DataKey(.random(count: 32))
            if scheme == .direct {
                try SidecarFiles(databasePath: folder.path("app.db")).write(other, dataKey: key)
            } else {
                let slot = try NewSlot(.rawKey(RawKey(bytes: TestKeys.rawKey)))
                let (made, keys) = try Sidecar.creating(settings: .plaintextHeader, slots: [slot])
                var foreign = made.next(.ready)
                foreign.epoch = 1
                // The log would tell that the sidecar is that of another store.
                try FileManager.default.removeItem(atPath: folder.path("app.db") + "-keylog")
                try SidecarFiles(databasePath: folder.path("app.db")).write(foreign, keys: keys)
                other.epoch = 1
            }
            let error = #expect(throws: StoreError.self) {
                try pool(folder.path("app.db"), fileKey.successor(), .knownKeys).close()
            }
            #expect(error?.code == .keyRotated(from: 1, to: other.epoch))
        }
    }

    @Test("a successor of a direct store goes on when the store has got slots meanwhile")
    func converted() throws {
        let folder = TemporaryFolder()
        var config = Configuration()
        config.keyScheme = .direct
        let source = KeySource.rawKey(TestKeys.rawKey)
        let store = try SharedStore.open(at: folder.path("app.db"), unlockedBy: source, configuration: config)
        try store.write { try $0.execute(sql: "CREATE TABLE note (a); INSERT INTO note VALUES (1)") }
        let fileKey = try opened(folder.path("app.db"), source)
        try store.keys.convertToSlots(.rawKey([UInt8](repeating: 3, count: 32)))
        try store.close()
        #expect(try count(folder.path("app.db"), fileKey.successor()) == 1)
    }

    @Test("notices are told once, and a successor keeps them")
    func notices() throws {
        let fixture = try KeyslotFixture()
        try FileManager.default.removeItem(atPath: fixture.path + "-sidecar")
        let fileKey = try opened(fixture.path, KeyslotFixture.first.source)
        #expect(!fileKey.opening.notices.isEmpty && Set(fileKey.opening.notices).count == fileKey.opening.notices.count)
        #expect(fileKey.successor().opening.notices == fileKey.opening.notices)
    }
}
