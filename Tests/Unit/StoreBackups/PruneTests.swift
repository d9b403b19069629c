import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreBackups

@Suite("Pruning a repository") struct PruneTests {
    private static let day: UInt64 = 86_400

    private func reasons(_ policy: RetentionPolicy, _ times: [UInt64]) -> [[RetentionPolicy.Rule]] {
        policy.reasons(times.enumerated().map { .init(sequence: UInt64($0.offset), created: $0.element) })
    }

    @Test("each rule keeps the last backup of its newest periods, and the newest backup always stays")
    func rules() {
        // Two a day from Monday 2026-06-01 on, for ten weeks.
        let start: UInt64 = 1_780_272_000
        let times = (0..<140).map { start + UInt64($0) * Self.day / 2 }
        let kept = reasons(RetentionPolicy(last: 3, daily: 4, weekly: 3, monthly: 2), times)
        #expect(kept.indices.filter { kept[$0].contains(.last) } == [137, 138, 139])
        #expect(kept.indices.filter { kept[$0].contains(.daily) } == [133, 135, 137, 139])
        #expect(kept.indices.filter { kept[$0].contains(.weekly) } == [111, 125, 139])
        // The last of July, and the newest of August.
        #expect(kept.indices.filter { kept[$0].contains(.monthly) } == [121, 139])
        #expect(reasons(RetentionPolicy(), times).last == [.last])
        #expect(reasons(RetentionPolicy(daily: 1), []).isEmpty)
    }

    @Test("months begin with their first day, also in leap years and at the turn of a year")
    func months() {
        for (before, after) in [(1_709_251_199, 1_709_251_200), (1_767_225_599, 1_767_225_600)] as [(UInt64, UInt64)] {
            #expect(RetentionPolicy.period(.monthly, before) + 1 == RetentionPolicy.period(.monthly, after))
        }
        // 2024-02-28 and 2024-02-29.
        #expect(
            RetentionPolicy.period(.monthly, 1_709_078_400) == RetentionPolicy.period(.monthly, 1_709_164_800))
    }

    @Test("a prune removes what no kept backup needs, and a dry run says the same and removes nothing")
    func prune() throws {
        let fixture = try RepositoryFixture()
        var contents: [[String]] = []
        for _ in 0..<5 {
            try fixture.change(oneIn: 20)
            contents.append(try RepositoryFixture.content(fixture.store))
            try fixture.repository.backUp(fixture.store)
        }
        let policy = RetentionPolicy(last: 2)
        let before = FolderSnapshot(path: fixture.place)
        let planned = try fixture.repository.prune(keeping: policy, isDryRun: true)
        #expect(FolderSnapshot(path: fixture.place).changes(until: before).isEmpty)
        let done = try fixture.repository.prune(keeping: policy)
        #expect(done.objects == planned.objects && done.objects > 0)
        #expect(done.decisions.map(\.rules.isEmpty) == [true, true, true, false, false])
        let left = try fixture.repository.backups()
        #expect(left.count == 2)
        #expect(try fixture.repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        for (backup, content) in zip(left, contents.suffix(2)) { #expect(try fixture.restored(backup) == content) }
        #expect(try fixture.repository.prune(keeping: policy).objects == 0)
    }

    @Test("a prune and a backup exclude each other, and a prune waits no longer than it says")
    func locks() throws {
        let fixture = try RepositoryFixture(rows: 1)
        let using = try fixture.repository.place.lockForUse(isWriting: true, { false })
        let other = try fixture.repository.place.lockForUse(isWriting: false, { false })
        #expect(throws: CancellationError.self) {
            try fixture.repository.prune(keeping: RetentionPolicy(last: 1), isCancelled: { true })
        }
        other.release()
        using.release()
        let removing = try fixture.repository.place.lockForRemoval { false }
        #expect(throws: CancellationError.self) {
            try fixture.repository.backUp(fixture.store, isCancelled: { true })
        }
        removing.release()
        try fixture.repository.backUp(fixture.store)
    }

    @Test("a record that cannot be read stops a prune, which would remove its pages")
    func damagedRecord() throws {
        let fixture = try RepositoryFixture(rows: 20)
        for _ in 0..<3 {
            try fixture.change(oneIn: 5)
            try fixture.repository.backUp(fixture.store)
        }
        let files = try fixture.files(.backup)
        try fixture.flip(files[1], at: 60)
        let before = FolderSnapshot(path: fixture.place)
        expectRefusal(.backupDamaged) { try fixture.repository.prune(keeping: RetentionPolicy(last: 1)) }
        #expect(FolderSnapshot(path: fixture.place).changes(until: before).isEmpty)
        try FileManager.default.removeItem(atPath: files[1])
        try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        #expect(try fixture.repository.verify().problems.isEmpty)
    }
}
