import CipherStore
import Foundation
import KeyCustody
@testable import RotationCore
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// The replacement of a database by its copy, step by step.
@Suite("The switch of a database to its copy", .serialized)
struct DatabaseSwitchTests {
    /// A rotation whose copy is complete, and whose switch is not announced yet.
    private func switching(_ fixture: RecoveryFixture) throws -> (DatabaseSwitch, pages: UInt32) {
        try fixture.begin()
        let pages = try fixture.copy()
        try fixture.write(pages)
        try fixture.lock()
        let database = try #require(try LockedDatabase.lock(fixture.path))
        let copy = try #require(try Files.identity(fixture.copyPath))
        return (
            DatabaseSwitch(StorePaths(fixture.path), try fixture.journal(), replacing: database, by: copy),
            UInt32(pages.count)
        )
    }

    @Test("the announcement is the commit point, and every step after it is done once", arguments: Rotated.allCases)
    func steps(kind: Rotated) throws {
        let fixture = try RecoveryFixture(kind)
        let (exchange, pages) = try switching(fixture)
        #expect(exchange.step == .proved && exchange.status == .notAnnounced && fixture.state() == .rotating)
        try exchange.passCommitPoint(pages: pages)
        #expect(exchange.step == .announced && exchange.status == .announced && fixture.state() == .switching)
        try exchange.run()
        #expect(exchange.step == .completed && exchange.status == .replaced && fixture.state() == .ready)
        #expect(exchange.notices == [])
        #expect(try Files.byteCount(fixture.path + "-wal") == 0)
        exchange.end()
        fixture.die()
        try fixture.checkRotated()
    }

    @Test("a switch that cannot be announced is told from one that is")
    func notAnnounced() throws {
        let fixture = try RecoveryFixture(.newDataKey)
        let (exchange, pages) = try switching(fixture)
        // Another process has ended the rotation.
        try fixture.journal().abandon()
        #expect(fixture.code { try exchange.passCommitPoint(pages: pages) } == .rotationPending)
        #expect(exchange.status == .notAnnounced && exchange.step == .proved)
        exchange.end()
        fixture.die()
        try fixture.checkUndone()
    }

    @Test("a second call resumes at the step that failed, and the status says what a failure leaves")
    func resumes() throws {
        let fixture = try RecoveryFixture(.newDataKey)
        let (exchange, pages) = try switching(fixture)
        try exchange.passCommitPoint(pages: pages)
        let (wal, elsewhere) = (fixture.path + "-wal", fixture.folder.path("elsewhere"))
        // An entry that is no regular file is neither replaced nor followed.
        try FileManager.default.moveItem(atPath: wal, toPath: elsewhere)
        try FileManager.default.createSymbolicLink(atPath: wal, withDestinationPath: elsewhere)
        #expect(throws: SystemError.self) { try exchange.run() }
        #expect(exchange.step == .announced && exchange.status == .announced)
        #expect(try Files.byteCount(elsewhere) ?? 0 > 0)
        try FileManager.default.removeItem(atPath: wal)
        try FileManager.default.moveItem(atPath: elsewhere, toPath: wal)
        // The copy is missing.
        try FileManager.default.moveItem(atPath: fixture.copyPath, toPath: elsewhere)
        #expect(throws: (any Error).self) { try exchange.run() }
        #expect(exchange.step == .walReplaced && exchange.status == .announced)
        try FileManager.default.moveItem(atPath: elsewhere, toPath: fixture.copyPath)
        // A rename that was reported as failed may have happened.
        #expect(rename(fixture.copyPath, fixture.path) == 0)
        #expect(exchange.step == .walReplaced && exchange.status == .replaced)
        try exchange.run()
        #expect(exchange.step == .completed)
        exchange.end()
        fixture.die()
        try fixture.checkRotated()
    }

    // The copy was verified by one opening and renamed by its name: a file that was put there in between became the
    // database.
    @Test("a file that took the name of the verified copy does not become the database", arguments: [false, true])
    func swappedCopy(isAnnounced: Bool) throws {
        let fixture = try RecoveryFixture(.newDataKey)
        let (exchange, pages) = try switching(fixture)
        let aside = fixture.folder.path("aside")
        let database = try Files.identity(fixture.path)
        if isAnnounced { try exchange.passCommitPoint(pages: pages) }
        try FileManager.default.moveItem(atPath: fixture.copyPath, toPath: aside)
        try FileManager.default.copyItem(atPath: aside, toPath: fixture.copyPath)
        #expect(
            fixture.code { try isAnnounced ? exchange.run() : exchange.passCommitPoint(pages: pages) }
                == .rotationPending)
        #expect(exchange.status == (isAnnounced ? .announced : .notAnnounced))
        #expect(try Files.identity(fixture.path) == database)
        #expect(rename(aside, fixture.copyPath) == 0)
        if !isAnnounced { try exchange.passCommitPoint(pages: pages) }
        try exchange.run()
        exchange.end()
        fixture.die()
        try fixture.checkRotated()
    }

    @Test("a switch whose copy has the database's place needs nothing but its record")
    func resumedBehindRename() throws {
        let fixture = try RecoveryFixture(.newDataKey).announceSwitch()
        try fixture.rename()
        try fixture.lock()
        let exchange = DatabaseSwitch(
            resuming: StorePaths(fixture.path), try fixture.journal(), replacing: nil, by: nil)
        #expect(exchange.step == .renamed && exchange.status == .replaced)
        try exchange.run()
        #expect(exchange.step == .completed && fixture.state() == .ready)
        fixture.die()
        try fixture.checkRotated()
    }

    @Test("a database is locked against every connection until it is released or replaced")
    func locked() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        let other = try FileDescriptor(opening: path, .readWrite)
        let first = try #require(try LockedDatabase.lock(path))
        #expect(try first.isInPlace && !other.tryLock(SQLiteLockByte.all, .exclusive))
        #expect(try LockedDatabase.lock(path) == nil)
        first.admitConnections()
        let second = try #require(try LockedDatabase.lock(path))
        // The first switch has nothing left to release.
        first.release()
        #expect(try !other.tryLock(SQLiteLockByte.all, .exclusive))
        try Data("x".utf8).write(to: URL(filePath: folder.path("new")))
        #expect(rename(folder.path("new"), path) == 0)
        try second.invalidateFirstPage()
        #expect(try !second.isInPlace && other.read(at: 0, byteCount: 16) == [UInt8](repeating: 0xff, count: 16))
        second.admitConnections()
        #expect(try !other.tryLock(SQLiteLockByte.all, .exclusive))
        second.release()
        #expect(try other.tryLock(SQLiteLockByte.all, .exclusive))
    }
}
