import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreBackups

@Suite("Backups in a repository") struct RepositoryBackupTests {
    @Test("each backup is restored with the rows of its moment, and pages that did not change are stored once")
    func series() throws {
        let fixture = try RepositoryFixture()
        var contents: [[String]] = []
        var reports: [RepositoryBackupReport] = []
        for round in 0..<4 {
            if round > 0 { try fixture.change() }
            contents.append(try RepositoryFixture.content(fixture.store))
            reports.append(try fixture.repository.backUp(fixture.store))
        }
        #expect(reports[0].parent == nil && reports[0].newPages == Int(reports[0].pages))
        for (earlier, later) in zip(reports, reports.dropFirst()) {
            #expect(later.parent == earlier.id)
            #expect((1...40).contains(later.newPages), "\(later.newPages)")
        }
        let backups = try fixture.repository.backups()
        #expect(backups.map(\.id) == reports.map(\.id) && backups.map(\.sequence) == [1, 2, 3, 4])
        for (backup, content) in zip(backups, contents) { #expect(try fixture.restored(backup) == content) }
        let verified = try fixture.repository.verify(unlockedBy: TestKeys.source("raw"))
        #expect(verified.problems.isEmpty && verified.authentic == 4 && verified.packsRead == verified.packs)
        // Nothing has changed since.
        #expect(try fixture.repository.backUp(fixture.store).newPages == 0)
        try fixture.store.close()
    }

    @Test("a store that grows, shrinks and is rotated is restored at each moment")
    func changedShapes() throws {
        let fixture = try RepositoryFixture()
        var contents: [[String]] = []
        let steps = [
            "", "DELETE FROM note WHERE id > 100", "VACUUM", "INSERT INTO note SELECT id + 1000, body FROM note",
        ]
        for step in steps {
            if !step.isEmpty { try fixture.store.writeWithoutTransaction { try $0.execute(sql: step) } }
            contents.append(try RepositoryFixture.content(fixture.store))
            try fixture.repository.backUp(fixture.store)
        }
        for (backup, content) in zip(try fixture.repository.backups(), contents) {
            #expect(try fixture.restored(backup) == content)
        }
        // A restored store is the same store: its next backup shares the pages.
        let target = fixture.folder.path("again.db")
        try fixture.repository.restore(
            fixture.repository.backup(), to: target, unlockedBy: TestKeys.source("raw"))
        let again = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        let report = try fixture.repository.backUp(again)
        #expect(report.parent != nil && report.newPages < 10, "\(report.newPages)")
        try again.close()
    }

    @Test("backups of several stores lie in one repository, made at once while both are written")
    func several() throws {
        let one = try RepositoryFixture()
        let other = try SharedStore.open(at: one.folder.path("other.db"), unlockedBy: TestKeys.source("raw"))
        try other.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB)") }
        let stop = Flag()
        let writer = Thread {
            while !stop.isSet { try? one.change(oneIn: 7) }
        }
        writer.start()
        DispatchQueue.concurrentPerform(iterations: 6) { number in
            #expect(throws: Never.self) { try one.repository.backUp(number % 3 == 0 ? other : one.store) }
        }
        stop.set()
        // Backups of one moment within one second are the same backup.
        let backups = try one.repository.backups()
        #expect((3...6).contains(backups.count) && Set(backups.map(\.storeID)).count == 2)
        #expect(try one.repository.verify().problems.isEmpty)
        let written = try one.repository.backup(try #require(backups.max { $0.pages < $1.pages }).id.description)
        _ = try one.restored(written)
        #expect(throws: StoreError.self) { try one.repository.backup() }
        try other.close()
    }

    // Story: of packs that were there only the tables were read. With a changed page, no later backup could be restored.
    @Test(
        "pages whose pack is missing or damaged, in its table or in a page, are stored again by the next backup",
        arguments: [nil, 30, 60_000])
    func healing(flippedByte: Int?) throws {
        let fixture = try RepositoryFixture()
        try fixture.repository.backUp(fixture.store)
        let pack = try #require(try fixture.files(.pack).first)
        if let flippedByte {
            try fixture.flip(pack, at: flippedByte)
        } else {
            try FileManager.default.removeItem(atPath: pack)
        }
        #expect(try fixture.repository.verify().problems.count == 1)
        let report = try fixture.repository.backUp(fixture.store)
        #expect(report.notices.contains { $0.contains("stored again") } && report.newPages > 0)
        let content = try RepositoryFixture.content(fixture.store)
        #expect(try fixture.restored(fixture.backup(report.id)) == content)
    }

    @Test("a changed byte anywhere in any object is found by a verification, and no restoration takes it")
    func damage() throws {
        let fixture = try RepositoryFixture(rows: 20)
        try fixture.repository.backUp(fixture.store)
        let content = try RepositoryFixture.content(fixture.store)
        let backup = try fixture.repository.backup()
        var numbers = Seed().numbers(1)
        for kind in [ObjectKind.backup, .blob, .pack] {
            for file in try fixture.files(kind) {
                let whole = try Data(contentsOf: URL(fileURLWithPath: file))
                for _ in 0..<3 {
                    try fixture.flip(file, at: Int.random(in: 0..<whole.count, using: &numbers))
                    #expect(try fixture.repository.verify().problems.count == 1, "\(file)")
                    // A key log is no part of a restored store; everything else is.
                    if (try? fixture.restored(backup)) != nil { #expect(kind != .pack) }
                    try whole.write(to: URL(fileURLWithPath: file))
                }
                try whole.dropLast().write(to: URL(fileURLWithPath: file))
                #expect(try fixture.repository.verify(sample: 0).problems.count == 1, "\(file)")
                try whole.write(to: URL(fileURLWithPath: file))
            }
        }
        #expect(try fixture.restored(backup) == content)
    }

    @Test("a record that somebody without the key has made is refused, and is nobody's parent")
    func forgery() throws {
        let fixture = try RepositoryFixture()
        let first = try fixture.repository.backUp(fixture.store)
        try fixture.change(oneIn: 2)
        try fixture.repository.backUp(fixture.store)
        // The pages of the first backup under the number of a later one.
        let record = try fixture.backup(first.id).record
        let forged = BackupRecord(
            facts: record.facts, sequence: 99, wal: record.wal, parent: record.parent, map: record.map,
            sidecar: record.sidecar, keyLog: record.keyLog, library: record.library, packs: record.packs)
        let id = try fixture.repository.store(.backup, forged.sealed(DataKey.random()))
        let error = #expect(throws: StoreError.self) { try fixture.restored(fixture.backup(id)) }
        #expect(error?.code == .backupDamaged && error?.why.contains("without the key") == true, "\(error as Any)")
        #expect(try fixture.repository.verify().problems.isEmpty)
        #expect(try fixture.repository.verify(unlockedBy: TestKeys.source("raw")).problems.count == 1)
        let next = try fixture.repository.backUp(fixture.store)
        #expect(next.parent != id && next.newPages == 0)
        expectRefusal(.wrongKey) {
            try fixture.repository.verify(unlockedBy: .rawKey([UInt8](repeating: 9, count: 32)))
        }
    }

    @Test("a page that is not authentic is not stored, and a damaged store makes no backup")
    func damagedStore() throws {
        let fixture = try RepositoryFixture()
        try fixture.store.close()
        try fixture.flip(fixture.path, at: 9 * 4096 + 100)
        let store = try SharedStore.open(at: fixture.path, unlockedBy: TestKeys.source("raw"))
        let error = #expect(throws: StoreError.self) { try fixture.repository.backUp(store) }
        #expect(error?.code == .pageDamaged(10), "\(error as Any)")
        #expect(try fixture.repository.backups().isEmpty)
        try store.close()
    }

    @Test("a place that is missing, has other files, or is of another version is refused and left alone")
    func places() throws {
        let fixture = try RepositoryFixture(rows: 1)
        let folder = fixture.folder
        // Story: the error was that of open(2), without a remedy.
        expectRefusal(.noSuchStore) { try BackupRepository(openingAt: folder.path("none")) }
        #expect(throws: SystemError.self) { try BackupRepository(creatingAt: folder.path("none")) }
        // The folder of the store itself.
        let error = #expect(throws: StoreError.self) { try BackupRepository(creatingAt: folder.url.path) }
        #expect(error?.code == .alreadyExists)
        expectRefusal(.noSuchStore) { try BackupRepository(openingAt: folder.url.path) }
        let format = fixture.place + "/f/format"
        try Data("cipherstore backup repository 2\n".utf8).write(to: URL(fileURLWithPath: format))
        expectRefusal(.sidecarAhead) { try BackupRepository(openingAt: fixture.place) }
        try Data("something".utf8).write(to: URL(fileURLWithPath: format))
        expectRefusal(.backupDamaged) { try BackupRepository(openingAt: fixture.place) }
        try FileManager.default.removeItem(atPath: format)
        #expect(try BackupRepository(creatingAt: fixture.place).backups().isEmpty)
    }

    @Test("an identifier and a time choose a backup; no clock changes which one is the newest")
    func choice() throws {
        let fixture = try RepositoryFixture(rows: 1)
        let first = try fixture.repository.backUp(fixture.store)
        let record = try fixture.backup(first.id).record
        let facts = record.facts
        func put(_ sequence: UInt64, _ created: UInt64) throws -> ObjectHash {
            let other = BackupRecord(
                facts: BackupFacts(
                    storeID: facts.storeID, epoch: facts.epoch, generation: facts.generation, created: created,
                    pageBytes: facts.pageBytes, pages: facts.pages), sequence: sequence, wal: record.wal,
                parent: first.id, map: record.map, sidecar: record.sidecar, keyLog: record.keyLog,
                library: record.library, packs: record.packs)
            return try fixture.repository.store(.backup, other.sealed(DataKey.random()))
        }
        let early = try put(2, 1000)
        let newest = try put(3, 500)
        #expect(try fixture.repository.backup().id == newest)
        #expect(try fixture.repository.backup(notAfter: 2000).id == early)
        #expect(try fixture.repository.backup(String(early.description.prefix(8))).id == early)
        expectRefusal(.noSuchStore) { try fixture.repository.backup(notAfter: 100) }
        expectRefusal(.noSuchStore) { try fixture.repository.backup("abc") }
    }
}
