import CipherStore
import Foundation
import KeyRotation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

/// A WAL with the present page 1, which somebody without the key has written: its checksums need none, and no code covers
/// the page count in its commit, nor the clear header of page 1.
///
/// Story: a checkpoint gave the file the length that the commit counts, 80 GB of holes or half of the pages, and a rotation
/// carried a changed header over.
@Suite("A planted WAL with the present page 1", .serialized)
struct PlantedWALTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let bytes: Int

    init() throws {
        let path = folder.path("app.db")
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000))")
        }
        try store.close()
        bytes = try #require(try Files.byteCount(path))
    }

    private func open() throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
    }

    /// Writes a WAL of one frame.
    ///
    /// - Parameter changes: Bytes of page 1, by their offsets.
    @discardableResult
    private func plant(counting pages: UInt32, changing changes: [Int: UInt8] = [:]) throws -> Data {
        var first = Array(try Data(contentsOf: URL(fileURLWithPath: path)).prefix(4096))
        for (offset, byte) in changes { first[offset] = byte }
        var log: [UInt8] = []
        func append(_ numbers: UInt32...) {
            for number in numbers { withUnsafeBytes(of: number.bigEndian) { log += $0 } }
        }
        func sum(_ bytes: ArraySlice<UInt8>, _ sums: (UInt32, UInt32)) -> (UInt32, UInt32) {
            var (one, two) = sums
            let bytes = Array(bytes)
            for start in stride(from: 0, to: bytes.count, by: 8) {
                func word(_ at: Int) -> UInt32 { (0..<4).reduce(0) { $0 | UInt32(bytes[at + $1]) << UInt32(8 * $1) } }
                one = one &+ word(start) &+ two
                two = two &+ word(start + 4) &+ one
            }
            return (one, two)
        }
        append(0x377f_0682, 3_007_000, 4096, 0, 0x4142_4344, 0x4546_4748)
        var sums = sum(log[...], (0, 0))
        append(sums.0, sums.1)
        append(1, pages)
        sums = sum(log.suffix(8), sums)
        sums = sum(first[...], sums)
        append(0x4142_4344, 0x4546_4748, sums.0, sums.1)
        let planted = Data(log + first)
        try planted.write(to: URL(fileURLWithPath: path + "-wal"))
        try? FileManager.default.removeItem(atPath: path + "-shm")
        return planted
    }

    @Test("no store is opened with it, and nothing is changed", arguments: [1, 20, 2_000_000, 0xffff_fffe] as [UInt32])
    func refused(pages: UInt32) throws {
        let planted = try plant(counting: pages)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        for _ in 1...2 {
            let error = #expect(throws: StoreError.self) { try open().close() }
            #expect(error?.code == .walDamaged && error?.why.contains("counts") == true, "\(error as Any)")
            #expect(error?.remedy.contains("move that file away") == true, "\(error as Any)")
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == planted)
        try FileManager.default.moveItem(atPath: path + "-wal", toPath: path + "-moved")
        let store = try open()
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT sum(length(a)) FROM t") } == 100_000)
        try store.close()
    }

    @Test(
        "no store is opened with a changed header of page 1, verify and salvage say so, and every row can be had",
        arguments: [
            [18: 1], [19: 1], [20: 0], [16: 0x20], [24: 7], [28: 0, 29: 0, 30: 0, 31: 9], [31: 200],
        ] as [[Int: UInt8]])
    func changedHeader(changes: [Int: UInt8]) throws {
        let counted = changes[31].map { UInt32($0) } ?? UInt32(bytes / 4096)
        let planted = try plant(counting: counted, changing: changes)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        for _ in 1...2 {
            let error = #expect(throws: StoreError.self) { try open().close() }
            #expect(error?.code == .walDamaged, "\(error as Any)")
            #expect(error?.why.contains("changed without the key") == true, "\(error as Any)")
        }
        let report = try StoreVerification(path, unlockedBy: TestKeys.source("raw")).run()
        #expect(!report.isSound && report.walLoss?.preventsOpening == true, "\(report.problems)")
        let status = try StoreStatus(path, unlockedBy: TestKeys.source("raw")).run()
        #expect(status.attention.contains { $0.contains("changed without the key") }, "\(status.attention)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == planted)
        _ = try StoreSalvage(of: path, to: folder.path("new.db"), unlockedBy: TestKeys.source("raw")).run()
        let salvaged = try SharedStore.open(at: folder.path("new.db"), unlockedBy: TestKeys.source("raw"))
        #expect(try salvaged.read { try Int.fetchOne($0, sql: "SELECT sum(length(a)) FROM t") } == 100_000)
        try salvaged.close()
    }

    @Test("one that another program has opened first is refused by rotations and backups")
    func live() throws {
        let planted = try plant(counting: 2_000_000)
        // The locks of another program's connection: the WAL counts as examined.
        let index = try #require(fopen(path + "-shm", "a+"))
        defer { fclose(index) }
        var lock = flock()
        (lock.l_type, lock.l_start, lock.l_len) = (Int16(F_RDLCK), 128, 1)
        #expect(fcntl(fileno(index), F_SETLK, &lock) == 0)
        let store = try open()
        for error in [
            #expect(throws: StoreError.self) { try KeyRotation(store).run() },
            #expect(throws: StoreError.self) { try store.backup(toFolder: folder.path("backup")) },
        ] {
            #expect(error?.code == .walDamaged, "\(error as Any)")
            #expect(error?.why.contains("counts 2000000 pages") == true, "\(error as Any)")
        }
        #expect(try Files.byteCount(path) == bytes)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")).starts(with: planted.prefix(32)))
        try store.close()
    }
}
