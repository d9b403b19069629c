import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreBackups

// Story: a member of the group without the key copied a record, raised its sequence number and stored it. A prune counted it
// as the newest backup and removed each genuine one. With the greatest number, each later backup ended by SIGILL.
@Suite("Records that another user may have written") struct UnprovenRecordTests {
    private static let isRoot = geteuid() == 0
    /// Another user, if only root can give files away; nil for a file that each user may write.
    private static let writers: [uid_t?] = isRoot ? [nil, 61_001] : [nil]

    private func made(_ count: Int) throws -> (RepositoryFixture, [ObjectHash]) {
        let fixture = try RepositoryFixture(rows: 30)
        let ids = try (0..<count).map { _ in
            try fixture.change(oneIn: 5)
            return try fixture.repository.backUp(fixture.store).id
        }
        return (fixture, ids)
    }

    @Test("without a key a prune neither counts nor removes one, and its objects stay", arguments: writers)
    func pruneWithoutKey(owner: uid_t?) throws {
        let (fixture, ids) = try made(3)
        let content = try RepositoryFixture.content(fixture.store)
        let forged = try fixture.forge(ids[0], sequence: 99, owner: owner)
        let report = try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        #expect(report.decisions.map(\.backup.id) == ids + [forged])
        #expect(report.decisions.map(\.standing) == [.counted, .counted, .counted, .unproven])
        #expect(report.decisions.map(\.isKept) == [false, false, true, true])
        #expect(report.decisions.last?.rules.isEmpty == true)
        #expect(report.notices.contains { $0.contains(forged.description.prefix(12)) }, "\(report.notices)")
        let left = try fixture.repository.backups()
        #expect(left.map(\.id) == [ids[2], forged] && left.map(\.isUnproven) == [false, true])
        #expect(try fixture.restored(left[0]) == content)
        #expect(try fixture.repository.verify().problems.isEmpty)
    }

    // Story: a copy of a record with another page size made the verification call the packs of all backups damaged, and its
    // hint was to remove them.
    @Test("what one says of the packs of others is not believed by a verification", arguments: writers, [false, true])
    func forgedPageSize(owner: uid_t?, hasKey: Bool) throws {
        let (fixture, ids) = try made(2)
        let facts = try fixture.backup(ids[1]).record.facts
        let other = BackupFacts(
            storeID: facts.storeID, epoch: facts.epoch, generation: facts.generation, created: facts.created,
            pageBytes: 8192, pages: facts.pages)
        let forged = try fixture.forge(ids[1], sequence: 99, facts: other, owner: owner)
        let result = try fixture.repository.verify(unlockedBy: hasKey ? TestKeys.source("raw") : nil)
        #expect(result.problems.isEmpty && result.backups == 2, "\(result.problems)")
        #expect(result.unproven == [ObjectKind.backup.name(forged)])
        try fixture.store.close()
    }

    // Story: a member of the group stored the sidecar of a store in advance, and removed it after the backup.
    @Test("a backup that uses objects of another user says so", arguments: writers)
    func objectsOfOthers(owner: uid_t?) throws {
        let (fixture, _) = try made(1)
        #expect(try fixture.repository.backUp(fixture.store).notices.isEmpty)
        let pack = try #require(try fixture.files(.pack).first)
        #expect(owner.map { chown(pack, $0, $0) } ?? chmod(pack, 0o666) == 0)
        let notices = try fixture.repository.backUp(fixture.store).notices
        #expect(notices.contains { $0.contains("another user") && $0.contains("1 object") }, "\(notices)")
        try fixture.store.close()
    }

    // Story: a member of the group gave the name of the key log to the victim's key file, and read it in the repository; a
    // forged record that came the same way had the victim as its owner.
    @Test("a file that has the name of the key log is not copied, only entries of a log are")
    func otherFileAsKeyLog() throws {
        let fixture = try RepositoryFixture(rows: 5)
        let log = fixture.path + "-keylog"
        let genuine = Array(try Data(contentsOf: URL(fileURLWithPath: log)))
        for (content, isKept) in [(Array("a secret\n".utf8), false), (genuine + Array("a secret\n".utf8), true)] {
            try Data(content).write(to: URL(fileURLWithPath: log))
            let report = try fixture.repository.backUp(fixture.store)
            let record = try fixture.backup(report.id).record
            #expect((record.keyLog != .none) == isKept)
            #expect(report.notices.contains { $0.contains("-keylog") } == !isKept, "\(report.notices)")
            if isKept { #expect(try fixture.repository.object(.blob, record.keyLog, limitBytes: 1 << 20) == genuine) }
        }
        #expect(truncate(log, 200 << 20) == 0)
        let last = try fixture.repository.backUp(fixture.store)
        #expect(try fixture.backup(last.id).record.keyLog == .none && last.notices.contains { $0.contains("-keylog") })
    }

    @Test("with a key the records count that it authenticates, of any user", arguments: writers)
    func pruneWithKey(owner: uid_t?) throws {
        let (fixture, ids) = try made(3)
        let forged = try fixture.forge(ids[0], sequence: 99, owner: owner)
        for file in try fixture.files(.backup) {
            #expect(owner.map { chown(file, $0, $0) } ?? chmod(file, 0o666) == 0)
        }
        let kept = try fixture.repository.prune(keeping: RetentionPolicy(last: 1), isDryRun: true)
        #expect(kept.decisions.allSatisfy { $0.standing == .unproven && $0.isKept })
        let report = try fixture.repository.prune(
            keeping: RetentionPolicy(last: 1), unlockedBy: TestKeys.source("raw"))
        #expect(report.decisions.map(\.standing) == [.counted, .counted, .counted, .notAuthentic])
        #expect(try fixture.repository.backups().map(\.id) == [ids[2], forged])
        expectRefusal(.wrongKey) {
            try fixture.repository.prune(
                keeping: RetentionPolicy(last: 1), unlockedBy: .rawKey([UInt8](repeating: 9, count: 32)))
        }
    }

    @Test("a damaged one does not stop a prune, nor does another name; both are reported", arguments: writers)
    func damaged(owner: uid_t?) throws {
        let (fixture, ids) = try made(2)
        for name in [String(repeating: "a", count: 64), "note"] {
            let file = fixture.place + "/b/" + name
            try Data("no record".utf8).write(to: URL(fileURLWithPath: file))
            #expect(owner.map { chown(file, $0, $0) } ?? chmod(file, 0o666) == 0)
        }
        let report = try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        #expect(report.notices.count == 2, "\(report.notices)")
        #expect(try fixture.repository.backups().map(\.id) == [ids[1]])
        #expect(try fixture.files(.backup).count == 3)
    }

    @Test("what another user puts among the objects does not stop a prune", .enabled(if: isRoot, "needs root"))
    func planted() throws {
        let (fixture, ids) = try made(2)
        for folder in ["p/" + String(repeating: "b", count: 64), "p/note", "tmp/upload"] {
            let path = fixture.place + "/" + folder
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            #expect(chown(path, 61_001, 61_001) == 0)
        }
        let report = try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        #expect(report.notices.contains { $0.contains("stayed") }, "\(report.notices)")
        #expect(try fixture.repository.backups().map(\.id) == [ids[1]])
    }

    @Test("the newest backup and that of a time are chosen among the other ones; an identifier names each")
    func choice() throws {
        let (fixture, ids) = try made(2)
        let forged = try fixture.forge(ids[0], sequence: 99, owner: nil)
        var notices: [String] = []
        #expect(try fixture.repository.backup(onNotice: { notices.append($0) }).id == ids[1])
        #expect(notices.count == 1 && notices[0].contains(forged.description.prefix(12)), "\(notices)")
        #expect(try fixture.repository.backup(notAfter: .max).id == ids[1])
        #expect(try fixture.repository.backup(forged.description).id == forged)
        for id in ids { try FileManager.default.removeItem(atPath: fixture.place + "/" + ObjectKind.backup.name(id)) }
        let error = #expect(throws: StoreError.self) { try fixture.repository.backup() }
        #expect(error?.code == .noSuchStore && error?.why.contains("another user") == true, "\(error as Any)")
    }

    @Test("the greatest sequence number ends no later backup, and is not counted on", arguments: writers)
    func greatestSequence(owner: uid_t?) throws {
        let (fixture, ids) = try made(1)
        let forged = try fixture.forge(ids[0], sequence: .max, owner: owner)
        let next = try fixture.repository.backUp(fixture.store)
        #expect(next.parent == ids[0])
        #expect(try fixture.backup(next.id).sequence == 2)
        // No record that the key authenticates, and no proven one.
        for id in [ids[0], next.id] {
            try FileManager.default.removeItem(atPath: fixture.place + "/" + ObjectKind.backup.name(id))
        }
        let first = try fixture.repository.backUp(fixture.store)
        #expect(try fixture.backup(first.id).sequence == 1)
        try FileManager.default.removeItem(atPath: fixture.place + "/" + ObjectKind.backup.name(first.id))
        // One that this user seems to have written.
        let file = fixture.place + "/" + ObjectKind.backup.name(forged)
        #expect(chown(file, geteuid(), getegid()) == 0 && chmod(file, 0o600) == 0)
        let last = try fixture.repository.backUp(fixture.store)
        #expect(try fixture.backup(last.id).sequence == .max)
    }
}

@Suite("Permissions and path of a repository") struct RepositoryPlaceTests {
    private func modes(_ place: String) throws -> [String: UInt32] {
        var modes: [String: UInt32] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: place) {
            modes[name] = try Files.status(of: place + "/" + name)?.permissions
        }
        return modes
    }

    // Story: under the usual umask, objects were 0644: each user of the machine read the sidecar with its keyslots.
    @Test(
        "objects are their owner's alone, unless the group may write the folder",
        arguments: [
            (0o755, 0o700, 0o600, 0o600), (0o2750, 0o2700, 0o600, 0o600), (0o2770, 0o2770, 0o640, 0o660),
            (0o3775, 0o3770, 0o640, 0o660),
        ] as [(UInt32, UInt32, UInt32, UInt32)])
    func permissions(root: UInt32, folder: UInt32, object: UInt32, lock: UInt32) throws {
        let fixture = try RepositoryFixture(rows: 5)
        let place = fixture.folder.path("other")
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
        #expect(chmod(place, mode_t(root)) == 0)
        try BackupRepository(creatingAt: place).backUp(fixture.store)
        let modes = try modes(place)
        #expect(modes.count > 8)
        for (name, mode) in modes {
            let wanted = name == "lock" ? lock : name.contains("/") ? object : folder
            #expect(mode == wanted, "\(name): \(String(mode, radix: 8))")
        }
    }

    // Story: a member of the group replaced the folder of a repository by a link into a private folder. A prune removed the
    // backups that were there.
    @Test(
        "a link of another user in the path is refused", .enabled(if: geteuid() == 0, "only root can give links away"))
    func link() throws {
        let fixture = try RepositoryFixture(rows: 5)
        try fixture.repository.backUp(fixture.store)
        let before = FolderSnapshot(path: fixture.place)
        let (link, chain) = (fixture.folder.path("link"), fixture.folder.path("chain"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: fixture.place)
        // The own link leads to the link.
        try FileManager.default.createSymbolicLink(atPath: chain, withDestinationPath: "link")
        _ = try BackupRepository(openingAt: chain)
        #expect(lchown(link, 61_001, 61_001) == 0)
        for path in [link, link + "/", link + "/b/..", chain] {
            expectRefusal(.storeName) { try BackupRepository(openingAt: path) }
            expectRefusal(.storeName) { try BackupRepository(creatingAt: path) }
        }
        #expect(FolderSnapshot(path: fixture.place).changes(until: before).isEmpty)
    }

    @Test("a folder that gets the path of an open repository is refused")
    func exchange() throws {
        let fixture = try RepositoryFixture(rows: 5)
        try fixture.repository.backUp(fixture.store)
        let other = fixture.folder.path("other")
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: false)
        try BackupRepository(creatingAt: other).backUp(fixture.store)
        try FileManager.default.moveItem(atPath: fixture.place, toPath: fixture.folder.path("away"))
        try FileManager.default.createSymbolicLink(atPath: fixture.place, withDestinationPath: other)
        let before = FolderSnapshot(path: other)
        let error = #expect(throws: SystemError.self) {
            try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        }
        #expect(error?.errorNumber == ESTALE)
        #expect(FolderSnapshot(path: other).changes(until: before).isEmpty)
    }
}
