import CipherStore
import ChangesetSync
import Foundation
import TestKit
import Testing

/// The code of a program, with nothing but the public interface.
@Suite("A program's code for a repository")
struct ProgramCodeTests {
    struct Player: Codable, Hashable, FetchableRecord, MutablePersistableRecord {
        var id: Int64?
        var name: String
        var score = 0

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private let folder = TemporaryFolder()

    private func writer(_ name: String) throws -> any DatabaseWriter {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 7, count: 32)) }
        let pool = try DatabasePool(path: folder.path(name), configuration: configuration)
        try pool.write { db in
            try db.execute(
                sql: "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL, score INTEGER NOT NULL)")
        }
        return pool
    }

    @Test("a store is opened, commits are made and looked at, and all of them can be taken back")
    func commits() throws {
        let dbWriter = try writer("a.db")
        // Rows from before the repository are the first commit.
        try dbWriter.write { db in
            var player = Player(name: "Old")
            try player.insert(db)
        }
        let repository = try ChangesetRepository(dbWriter)
        let player = try repository.commit(meta: #"{"by": "seed"}"#) { db in try Player(name: "Ann").inserted(db) }
        #expect(player.id == 2)
        let second = try repository.commit { db in try Player(name: "Bob", score: 2).inserted(db) }
        #expect(second.id == 3)

        let (changesets, head) = try repository.reader.read { db in
            (try Changeset.fetchAll(db), try Head.fetchOne(db))
        }
        #expect(changesets.count == 3)
        let first = try #require(changesets.first { $0.meta == #"{"by": "seed"}"# })
        let last = try #require(changesets.first { $0.uuid == head?.uuid })
        #expect(first.uuid.count == 64 && first.uuid != last.uuid)
        #expect(last.parent_uuid == first.uuid && last.meta == "{}")
        #expect(first.parent_uuid == changesets.first { $0.parent_uuid == nil }?.uuid)
        #expect(!last.parent_changeset.isEmpty && last.merge_uuid == nil && last.merge_changeset == nil)
        #expect(!last.pushed)
        #expect(try repository.log() == [last, first, changesets.first { $0.parent_uuid == nil }])

        #expect(try repository.pull() == nil)
        #expect(try repository.mergeAll().isEmpty)
        #expect(try repository.merge(first, last) == last)
        try repository.reset()
        #expect(try repository.reader.read { try Player.fetchCount($0) } == 0)
    }

    @Test("a second connection of the program has the same repository, and no call before commit is needed")
    func secondConnection() throws {
        let dbWriter = try writer("a.db")
        _ = try ChangesetRepository(dbWriter)
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 7, count: 32)) }
        let repository = try ChangesetRepository(DatabasePool(path: folder.path("a.db"), configuration: configuration))
        try repository.commit { db in _ = try Player(name: "Ann").inserted(db) }
        #expect(try dbWriter.read { try Head.fetchOne($0) } == repository.reader.read { try Head.fetchOne($0) })
    }

    @Test("a program without foreign keys on, and one whose error undoes a commit, have what they expect")
    func errors() throws {
        struct Refusal: Error {}
        let repository = try ChangesetRepository(writer("a.db"))
        #expect(throws: Refusal.self) {
            try repository.commit { db in
                _ = try Player(name: "Ann").inserted(db)
                throw Refusal()
            }
        }
        #expect(try repository.reader.read { try Player.fetchCount($0) } == 0)
        #expect(try repository.reader.read { try Head.fetchOne($0) } == nil)
    }

    /// The values of `pushed` that commits have.
    private func pushed(_ repository: ChangesetRepository) throws -> Set<Bool> {
        Set(try repository.reader.read { try Changeset.fetchAll($0) }.map(\.pushed))
    }

    @Test("a manager sets a remote up, pushes, fetches and forgets")
    func manager() async throws {
        let path = folder.path("remote")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let repository = try ChangesetRepository(writer("a.db"))
        let player = try repository.commit { db in try Player(name: "Ann").inserted(db) }
        let manager = try SyncManager(repository, folder: path)
        try await manager.setup()
        try repository.commit { db in
            var changed = player
            changed.score = 7
            try changed.update(db)
        }
        #expect(try await manager.push() == 1)
        #expect(try await manager.fetch() == 0)
        #expect(try pushed(repository) == [true])
        try await manager.reset()
        #expect(try pushed(repository) == [false])
        try await manager.push()
        #expect(try await manager.sync() == nil)
        #expect(try pushed(repository) == [true])
    }
}
