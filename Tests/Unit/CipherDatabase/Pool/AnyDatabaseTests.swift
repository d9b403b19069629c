import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite struct AnyDatabaseTests {
    let folder = TemporaryFolder()

    @Test("a writer that hides its kind does what the writer behind it does")
    func writer() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.label = "behind" }
        let writer = AnyDatabaseWriter(pool)
        #expect(writer.path == pool.path && writer.configuration.label == "behind")
        try await writer.write { try $0.insert(1) }
        try await writer.writeWithoutTransaction { try $0.insert(2) }
        try await writer.barrierWriteWithoutTransaction { try $0.insert(3) }
        try writeSynchronously(writer)
        try writer.close()
        #expect(databaseError { try pool.read { _ in } }?.resultCode == .SQLITE_MISUSE)
    }

    private func writeSynchronously(_ writer: AnyDatabaseWriter) throws {
        try writer.write { try $0.insert(4) }
        try writer.writeWithoutTransaction { try $0.insert(5) }
        try writer.unsafeReentrantWrite { try $0.insert(6) }
        try writer.barrierWriteWithoutTransaction { try $0.insert(7) }
        let ended = Gate()
        writer.asyncWriteWithoutTransaction { db in
            try? db.insert(8)
            ended.open()
        }
        writer.asyncBarrierWriteWithoutTransaction { outcome in
            try? outcome.get().insert(9)
            ended.open()
        }
        for _ in 0..<2 { #expect(ended.wait()) }
        let counted = Shared(0)
        writer.writeWithoutTransaction { _ in
            writer.spawnConcurrentRead { outcome in
                counted.change { $0 = (try? outcome.get().rowCount()) ?? -1 }
                ended.open()
            }
        }
        #expect(ended.wait())
        #expect(counted.value == 9)
        #expect(try writer.checkpoint(.passive).isComplete)
        try writer.vacuum(into: folder.path("copy.db"))
        writer.interrupt()
    }

    @Test("a reader that hides its kind does what the reader behind it does")
    func reader() async throws {
        let pool = try Databases.poolWithTable(folder)
        let snapshot = try pool.makeSnapshot()
        let readers = [
            AnyDatabaseReader(pool), AnyDatabaseReader(snapshot), AnyDatabaseReader(AnyDatabaseWriter(pool)),
        ]
        for reader in readers {
            #expect(reader.path == pool.path && reader.configuration.maximumReaderCount == 5)
            #expect(try await reader.read { try $0.rowCount() } == 0)
            #expect(try await reader.unsafeRead { try $0.rowCount() } == 0)
            try readSynchronously(reader)
        }
        try readers[1].close()
        #expect(databaseError { _ = try snapshot.read { try $0.rowCount() } }?.resultCode == .SQLITE_MISUSE)
    }

    private func readSynchronously(_ reader: AnyDatabaseReader) throws {
        #expect(try reader.read { try $0.rowCount() } == 0)
        #expect(try reader.unsafeRead { try $0.rowCount() } == 0)
        #expect(try reader.unsafeReentrantRead { try $0.rowCount() } == 0)
        let ended = Gate()
        reader.asyncRead { outcome in if (try? outcome.get().rowCount()) == 0 { ended.open() } }
        reader.asyncUnsafeRead { outcome in if (try? outcome.get().rowCount()) == 0 { ended.open() } }
        for _ in 0..<2 { #expect(ended.wait()) }
        reader.interrupt()
    }
}
