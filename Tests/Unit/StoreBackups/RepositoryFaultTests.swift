import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreBackups

/// Each call of a place fails once, before or after it is done.
@Suite("A place whose calls fail", .serialized) struct RepositoryFaultTests {
    /// Runs work with each call failing in turn, until it makes fewer calls.
    private func each(_ place: String, isDone: Bool, _ body: (BackupRepository, Int) throws -> Bool) throws {
        var number = 1 + Sweep.first(oneIn: 2)
        var hits = 0
        while true {
            let faulty = FaultyPlace(place, failing: number, isDone: isDone)
            do {
                // The first call opens the repository.
                _ = try body(BackupRepository(opening: faulty), number)
            } catch let error as SystemError {
                #expect(error.errorNumber == EIO)
            }
            if faulty.count < number { break }
            hits += 1
            number += Sweep.stride(2)
        }
        #expect(hits > 2)
    }

    @Test(
        "a backup whose call fails is none or whole; the others stay, and the next one completes",
        arguments: [true, false])
    func backup(isDone: Bool) throws {
        let fixture = try RepositoryFixture(rows: 60)
        var contents = [try fixture.repository.backUp(fixture.store).id: try RepositoryFixture.content(fixture.store)]
        try each(fixture.place, isDone: isDone) { repository, number in
            try fixture.change(oneIn: 10)
            let before = Set(try fixture.repository.backups().map(\.id))
            defer {
                let after = (try? fixture.repository.backups()) ?? []
                for new in after where !before.contains(new.id) {
                    contents[new.id] = try? RepositoryFixture.content(fixture.store)
                }
            }
            try repository.backUp(fixture.store)
            return true
        }
        #expect(try fixture.repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        try fixture.repository.backUp(fixture.store)
        try fixture.repository.prune(keeping: RetentionPolicy(last: 1000))
        for backup in try fixture.repository.backups().dropLast() {
            #expect(try fixture.restored(backup) == contents[backup.id])
        }
    }

    @Test(
        "a prune whose call fails loses no backup that is kept, and the next one completes", arguments: [true, false])
    func prune(isDone: Bool) throws {
        let fixture = try RepositoryFixture(rows: 60)
        try each(fixture.place, isDone: isDone) { repository, number in
            for _ in 0..<3 {
                try fixture.change(oneIn: 10)
                try fixture.repository.backUp(fixture.store)
            }
            let content = try RepositoryFixture.content(fixture.store)
            let newest = try fixture.repository.backup()
            defer {
                #expect(throws: Never.self) {
                    #expect(try fixture.repository.verify().problems.isEmpty)
                    #expect(try fixture.restored(newest) == content)
                    try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
                }
            }
            try repository.prune(keeping: RetentionPolicy(last: 1))
            return true
        }
        let needed = try fixture.repository.backup().record
        #expect(try fixture.files(.pack).count == needed.packs.count)
    }

    @Test("a restoration whose call fails leaves nothing behind", arguments: [true, false])
    func restoration(isDone: Bool) throws {
        let fixture = try RepositoryFixture(rows: 60)
        try fixture.repository.backUp(fixture.store)
        try fixture.store.close()
        let backup = try fixture.repository.backup()
        let before = Set(try FileManager.default.contentsOfDirectory(atPath: fixture.folder.url.path))
        try each(fixture.place, isDone: isDone) { repository, number in
            let target = "target\(number).db"
            do {
                try repository.restore(backup, to: fixture.folder.path(target), unlockedBy: TestKeys.source("raw"))
            } catch {
                let after = Set(try FileManager.default.contentsOfDirectory(atPath: fixture.folder.url.path))
                #expect(!after.subtracting(before).contains { $0.hasPrefix(target) }, "\(number): \(after)")
                throw error
            }
            return true
        }
    }
}
