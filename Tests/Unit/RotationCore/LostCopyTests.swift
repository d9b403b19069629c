import CipherStore
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// A rotation that was interrupted at its switch, and whose copy is missing, truncated, damaged or another file.
@Suite("Recovery of a rotation without its copy", .serialized)
struct LostCopyTests {
    /// Kinds of stores with bad copies. `make test` takes each of both with one in two of the others.
    private static let badCopies = Rotated.allCases.enumerated().flatMap { ordinal, kind in
        Sweep.sample(RecoveryFixture.BadCopy.allCases, oneIn: 2, offset: ordinal).map { (kind, $0) }
    }

    @Test(
        "a copy that is not the complete one never gets the database's name; where the log is gone nothing is changed",
        arguments: badCopies)
    func badCopy(kind: Rotated, bad: RecoveryFixture.BadCopy) throws {
        let fixture = try RecoveryFixture(kind).announceSwitch()
        let pages = try fixture.copy()
        try fixture.spoil(bad, pages)
        try Data().write(to: URL(filePath: fixture.path + "-wal"))
        let before = FolderSnapshot(of: fixture.folder)
        for _ in 0..<2 { #expect(fixture.code { _ = try fixture.open(kind.next) } == .rotationPending) }
        if kind != .compromised {
            let text = fixture.text { _ = try fixture.open(0) }
            #expect(text.contains("the WAL was emptied for the switch"), "\(text)")
        }
        #expect(before.changes(until: FolderSnapshot(of: fixture.folder)).filter { !$0.hasSuffix("-lock") } == [])
        // The missing file is put back, and the store is complete.
        try? FileManager.default.removeItem(atPath: fixture.copyPath)
        try fixture.write(pages)
        try fixture.checkRotated()
    }

    // A store whose copy had been removed, or damaged by the disk, was once lost permanently, although the former
    // database, its WAL and its key were unchanged.
    @Test(
        "a rotation whose copy is lost before the log was emptied is undone, which is said, and no commit is lost",
        arguments: badCopies)
    func lostCopy(kind: Rotated, bad: RecoveryFixture.BadCopy) throws {
        // `make test` takes one of the two with each copy.
        let ordinal =
            (Rotated.allCases.firstIndex(of: kind) ?? 0)
            + (RecoveryFixture.BadCopy.allCases.firstIndex(of: bad) ?? 0) / 2
        for hasIndex in Sweep.sample([false, true], oneIn: 2, offset: ordinal) {
            let fixture = try RecoveryFixture(kind, hasIndex: hasIndex).announceSwitch()
            try fixture.spoil(bad, fixture.copy())
            if kind == .direct {
                let before = FolderSnapshot(of: fixture.folder)
                #expect(fixture.code { _ = try fixture.open(7) } == .rotationPending)
                #expect(
                    before.changes(until: FolderSnapshot(of: fixture.folder)).filter { !$0.hasSuffix("-lock") } == [])
            }
            let (epoch, notices) = try fixture.check(0)
            #expect(epoch == 1)
            #expect(
                notices.contains {
                    $0.contains("An interrupted rotation to epoch 2 was undone")
                        && $0.contains("the database and its WAL have everything that was committed")
                }, "\(notices)")
            if bad == .link || bad == .folder { try FileManager.default.removeItem(atPath: fixture.copyPath) }
            try fixture.checkUndone()
            // The store can be rotated again.
            try fixture.announceSwitch()
            try fixture.checkRotated()
        }
    }

    @Test(
        "a log that may lack commits is no reason to undo a switch whose copy is lost: cut, damaged, or an older one",
        arguments: [false, true], ["cut", "damaged", "garbage", "absent", "folder"])
    func unfitLog(hasIndex: Bool, how: String) throws {
        let fixture = try RecoveryFixture(.newDataKey, hasIndex: hasIndex).announceSwitch()
        let (pages, wal) = (try fixture.copy(), fixture.path + "-wal")
        let log = try #require(FileManager.default.contents(atPath: wal))
        try FileManager.default.removeItem(atPath: fixture.copyPath)
        try FileManager.default.removeItem(atPath: wal)
        let scan = try #require(
            try WALScan.scan(fileBytes: log.count) { offset, buffer in
                let piece = [UInt8](log[min(offset, log.count)..<min(log.count, offset + buffer.count)])
                buffer.copyBytes(from: piece)
                return piece.count
            })
        let last = scan.header.frameOffset(scan.committedFrames)
        switch how {
        // In the middle of the last commit.
        case "cut": try log.prefix(last + (hasIndex ? 0 : 100)).write(to: URL(filePath: wal))
        case "damaged":
            var log = log
            log[last + 200] ^= 1
            try log.write(to: URL(filePath: wal))
        case "garbage": try Data(repeating: 7, count: log.count).write(to: URL(filePath: wal))
        case "folder": try FileManager.default.createDirectory(atPath: wal, withIntermediateDirectories: false)
        default: break
        }
        let before = FolderSnapshot(of: fixture.folder)
        let text = fixture.text { _ = try fixture.open(0) }
        #expect(text.contains(how == "absent" ? "was emptied" : "nothing proves that the WAL"), "\(text)")
        #expect(before.changes(until: FolderSnapshot(of: fixture.folder)).filter { !$0.hasSuffix("-lock") } == [])
        if how == "folder" { try FileManager.default.removeItem(atPath: wal) }
        try fixture.write(pages)
        try fixture.checkRotated()
    }

    @Test(
        "giving up what was cut at the switch does what an opening would: undoes it when its copy is lost, or says why not",
        arguments: ["whole", "lost", "lost with the log"])
    func abandonAtSwitch(how: String) throws {
        let fixture = try RecoveryFixture(.newDataKey).announceSwitch()
        if how != "whole" { try FileManager.default.removeItem(atPath: fixture.copyPath) }
        if how == "lost with the log" { try Data().write(to: URL(filePath: fixture.path + "-wal")) }
        let secret = try Rotated.secret(0)
        let journal = RotationJournal(databasePath: fixture.path) { try secret.unlock($0) }
        let before = FolderSnapshot(of: fixture.folder)
        try fixture.lock()
        defer { fixture.die() }
        func undo() throws -> Bool { try RotationRecovery.undoSwitch(StorePaths(fixture.path), journal) }
        if how == "lost" {
            #expect(try undo())
            fixture.die()
            try fixture.checkUndone()
        } else {
            if how == "whole" {
                #expect(try !undo())
            } else {
                #expect(fixture.text { _ = try undo() }.contains("emptied"))
            }
            #expect(before.changes(until: FolderSnapshot(of: fixture.folder)).filter { !$0.hasSuffix("-lock") } == [])
        }
    }

    @Test("a store that gave its file up for a switch whose copy is lost undoes it itself and goes on")
    func peerOfLostCopy() throws {
        for kind in Rotated.allCases {
            let fixture = try RecoveryFixture(kind)
            let peer = try fixture.open(0)
            let paths = StorePaths(fixture.path)
            // The WAL must have frames, as a rotation ensures.
            try peer.write { try $0.execute(sql: "UPDATE t SET a = a WHERE id = 1") }
            let request = try #require(try YieldRequest.ask(paths, insists: false))
            let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20), isCancelled: { false }))
            try fixture.announceSwitch()
            try FileManager.default.removeItem(atPath: fixture.copyPath)
            lease.release()
            request.end()
            #expect(try peer.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == RecoveryFixture.rows)
            try peer.write { try $0.execute(sql: "CREATE TABLE mine (a); DROP TABLE mine") }
            #expect(peer.notices.contains { $0.contains("was undone") }, "\(peer.notices)")
            try peer.close()
            try fixture.checkUndone()
        }
    }
}
