import CipherStore
import Foundation
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// The exchange of a database for its copy, step by step.
@Suite("The switch of a database to its copy", .serialized)
struct DatabaseSwitchTests {
    /// A rotation whose copy is complete, and whose switch is to be announced.
    private func switching(_ bench: RecoveryBench) throws -> (DatabaseSwitch, pages: UInt32) {
        try bench.begin()
        let pages = try bench.copy()
        try bench.write(pages)
        try bench.lock()
        let database = try #require(try LockedDatabase.lock(bench.path))
        return (
            DatabaseSwitch(StorePaths(bench.path), try bench.journal(), replacing: database), UInt32(pages.count)
        )
    }

    @Test("the announcement is the commit point, and every step after it is done once", arguments: Rotated.allCases)
    func steps(kind: Rotated) throws {
        let bench = try RecoveryBench(kind)
        let (exchange, pages) = try switching(bench)
        #expect(exchange.step == .proved && exchange.status == .notAnnounced && bench.state() == .rotating)
        try exchange.announce(pages: pages)
        #expect(exchange.step == .announced && exchange.status == .announced && bench.state() == .switching)
        try exchange.run()
        #expect(exchange.step == .completed && exchange.status == .replaced && bench.state() == .ready)
        #expect(exchange.notices == [])
        #expect(try Files.byteCount(bench.path + "-wal") == 0)
        exchange.end()
        bench.die()
        try bench.checkRotated()
    }

    @Test("a switch that cannot be announced is told from one that is")
    func notAnnounced() throws {
        let bench = try RecoveryBench(.newDataKey)
        let (exchange, pages) = try switching(bench)
        // Somebody else has ended the rotation.
        try bench.journal().abandon()
        #expect(bench.code { try exchange.announce(pages: pages) } == .rotationPending)
        #expect(exchange.status == .notAnnounced && exchange.step == .proved)
        exchange.end()
        bench.die()
        try bench.checkUndone()
    }

    @Test("a second call resumes at the step that failed, and the status says what a failure leaves")
    func resumes() throws {
        let bench = try RecoveryBench(.newDataKey)
        let (exchange, pages) = try switching(bench)
        try exchange.announce(pages: pages)
        let (wal, elsewhere) = (bench.path + "-wal", bench.folder.path("elsewhere"))
        // What is no file is neither replaced nor followed.
        try FileManager.default.moveItem(atPath: wal, toPath: elsewhere)
        try FileManager.default.createSymbolicLink(atPath: wal, withDestinationPath: elsewhere)
        #expect(throws: SystemError.self) { try exchange.run() }
        #expect(exchange.step == .announced && exchange.status == .announced)
        #expect(try Files.byteCount(elsewhere) ?? 0 > 0)
        try FileManager.default.removeItem(atPath: wal)
        try FileManager.default.moveItem(atPath: elsewhere, toPath: wal)
        // The copy is gone.
        try FileManager.default.moveItem(atPath: bench.copyPath, toPath: elsewhere)
        #expect(throws: (any Error).self) { try exchange.run() }
        #expect(exchange.step == .walReplaced && exchange.status == .announced)
        try FileManager.default.moveItem(atPath: elsewhere, toPath: bench.copyPath)
        // A rename that was reported as failed may have happened.
        #expect(rename(bench.copyPath, bench.path) == 0)
        #expect(exchange.step == .walReplaced && exchange.status == .replaced)
        try exchange.run()
        #expect(exchange.step == .completed)
        exchange.end()
        bench.die()
        try bench.checkRotated()
    }

    @Test("a switch whose copy has the database's place needs nothing but its record")
    func resumedBehindRename() throws {
        let bench = try RecoveryBench(.newDataKey).announce()
        try bench.rename()
        try bench.lock()
        let exchange = DatabaseSwitch(resuming: StorePaths(bench.path), try bench.journal(), replacing: nil)
        #expect(exchange.step == .renamed && exchange.status == .replaced)
        try exchange.run()
        #expect(exchange.step == .completed && bench.state() == .ready)
        bench.die()
        try bench.checkRotated()
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
        // The first one has nothing to release any more.
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
