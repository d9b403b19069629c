import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

/// A WAL that is not that of the database beside it was called sound, or applied without a word.
@Suite("A WAL that belongs to another database")
struct ForeignWALTests {
    private let killed: KilledWriter

    init() throws { killed = try KilledWriter() }

    private func expectRefused(_ words: String) throws {
        let database = try killed.bytes(killed.path)
        let log = try killed.log()
        for opens in [
            killed.open, { try #require(try SharedStore.openReadOnly(at: killed.path, unlockedBy: killed.source)) },
        ] {
            let error = #expect(throws: StoreError.self) { try opens().close() }
            #expect(error?.code == .walDamaged && error?.why.contains(words) == true, "\(error.debugDescription)")
        }
        #expect(try killed.bytes(killed.path) == database && killed.log() == log)
        let status = try StoreStatus(killed.path, unlockedBy: killed.source).run()
        #expect(status.attention.contains { $0.contains(words) }, "\(status.attention)")
        let verified = try StoreVerification(killed.path, unlockedBy: killed.source).run()
        #expect(!verified.isSound && verified.problems.contains { $0.contains(words) }, "\(verified.problems)")
    }

    @Test("a WAL of another key is refused and reported, whichever pages it has", arguments: [false, true])
    func otherKey(hasFirstPage: Bool) throws {
        let path = killed.fixture.path("other.db")
        let other = try SharedStore.open(at: path, unlockedBy: .rawKey([UInt8](repeating: 9, count: 32)))
        try other.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)") }
        try other.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 'x')") }
        if !hasFirstPage { try other.checkpoint(.truncate) }
        try other.write { try $0.execute(sql: "UPDATE t SET text = 'y'") }
        try killed.write(killed.bytes(path + "-wal"), to: killed.path + "-wal")
        try other.close()
        try expectRefused("is not that of this database")
    }

    /// SQLite mixes the pages of the two states without an error.
    @Test("a WAL from before a restore, or a database from before the WAL, is refused and reported")
    func otherState() throws {
        let (early, log) = (try killed.bytes(killed.path), try killed.log())
        for step in 0..<3 {
            let store = try killed.open()
            try store.write { db in
                try db.execute(sql: "CREATE TABLE more\(step) (a); INSERT INTO t (text) VALUES (hex(zeroblob(20000)))")
            }
            try store.close()
        }
        let late = try killed.bytes(killed.path)
        // The database went on; the WAL of before is put beside it.
        try killed.write(log, to: killed.path + "-wal")
        try? FileManager.default.removeItem(atPath: killed.path + "-shm")
        try expectRefused("two states")
        // The other way round: the WAL of today beside the database of before.
        try killed.write(late, to: killed.path)
        try killed.write([], to: killed.path + "-wal")
        let store = try killed.open()
        try store.write { try $0.execute(sql: "CREATE TABLE last (a)") }
        let lateLog = try killed.log()
        try store.close()
        try killed.write(early, to: killed.path)
        try killed.write(lateLog, to: killed.path + "-wal")
        try? FileManager.default.removeItem(atPath: killed.path + "-shm")
        try expectRefused("two states")
    }

    @Test("the own WAL is never refused: beside its database of any moment since its first frame")
    func own() throws {
        let log = try killed.log()
        for isCheckpointed in [false, true] {
            if isCheckpointed {
                // The database has all frames of the WAL, and the WAL is still there.
                let store = try killed.open()
                try store.close()
                try killed.write(log, to: killed.path + "-wal")
                try? FileManager.default.removeItem(atPath: killed.path + "-shm")
            }
            let store = try killed.open()
            #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 12)
            #expect(store.notices.isEmpty, "\(store.notices)")
            try store.close()
            try killed.write(log, to: killed.path + "-wal")
        }
    }
}
