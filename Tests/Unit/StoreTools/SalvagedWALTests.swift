import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

extension KilledWriter {
    fileprivate func salvage(_ name: String = "out.db", wal: String? = nil) throws -> StoreSalvage.Report {
        var tool = StoreSalvage(of: path, to: fixture.path(name), unlockedBy: source)
        tool.wal = wal
        return try tool.run()
    }

    fileprivate func texts(_ name: String = "out.db") throws -> Set<String> {
        let store = try SharedStore.open(at: fixture.path(name), unlockedBy: source)
        defer { try? store.close() }
        return try store.read { try Set(String.fetchAll($0, sql: "SELECT text FROM t WHERE length(text) < 9")) }
    }
}

/// The pages behind a damaged frame of a WAL were not read where the header of the WAL, or the salts of a frame, were
/// damaged; and no copy of a WAL could be read at all.
@Suite("A salvage reads commits behind damage")
struct SalvagedWALTests {
    private let killed: KilledWriter

    init() throws { killed = try KilledWriter() }

    private static let all = Set((1...KilledWriter.commits).map(String.init))

    enum Change: String, CaseIterable, Sendable { case checksum, salt, count, header, number, plainByteOfPageOne }

    @Test("all commits are read where the page of each frame is whole", arguments: Change.allCases)
    func whole(_ change: Change) throws {
        let frame = try killed.ends()[1]
        switch change {
        case .checksum: try killed.flip(KilledWriter.offset(frame) + 17)
        case .salt: try killed.flip(KilledWriter.offset(frame) + 9)
        case .count: try killed.flip(KilledWriter.offset(frame) + 7)
        case .number: try killed.flip(KilledWriter.offset(frame) + 3)
        case .header: try killed.flip(20)
        case .plainByteOfPageOne: try killed.flip(KilledWriter.offset(try killed.frameOfPageOne()) + 24 + 20)
        }
        let report = try killed.salvage()
        #expect(try killed.texts() == Self.all)
        #expect(!report.hasLosses && report.lostCommits == nil, "\(report)")
        let damage = try #require(report.passedDamage)
        #expect(damage.isComplete && damage.commitsBefore + damage.wholeCommits == KilledWriter.commits, "\(damage)")
    }

    @Test("of a commit with a damaged page the others are read, and the report says which frame is lost")
    func partial() throws {
        let frame = try killed.ends()[2]
        try killed.flip(KilledWriter.offset(frame) + 24 + 700)
        let report = try killed.salvage()
        let damage = try #require(report.passedDamage)
        #expect(damage.commitsBefore == 2 && damage.partialCommits == 1 && damage.wholeCommits == 3, "\(damage)")
        #expect(damage.lostFrames == [UInt32(frame)])
        #expect(report.hasLosses && report.lostCommits?.contains("frames \(frame)") == true)
        // Later commits have written the page again.
        #expect(try killed.texts() == Self.all)
    }

    @Test("a copy of a WAL is read in the place of the store's own, after the store was used again")
    func copy() throws {
        try killed.flip(KilledWriter.offset(try killed.ends()[1]) + 24 + 700)
        _ = try killed.use()
        #expect(try killed.salvage("without.db").passedDamage == nil)
        #expect(try killed.texts("without.db") == ["1", "after"])
        let report = try killed.salvage(wal: killed.copy)
        #expect(try killed.texts().isSuperset(of: Self.all.subtracting(["2"])))
        #expect(report.notices.contains { $0.contains("different commits") }, "\(report.notices)")
    }

    // Story: the two files were compared byte by byte, for minutes.
    @Test("the holes of two sparse WALs are not read to compare them")
    func holes() throws {
        try killed.write(killed.log(), to: killed.copy)
        for path in [killed.path + "-wal", killed.copy] { #expect(truncate(path, 16 << 30) == 0) }
        let begin = ContinuousClock.now
        let whole = try killed.salvage(wal: killed.copy)
        let time = ContinuousClock.now - begin
        #expect(whole.notices.allSatisfy { !$0.contains("different commits") }, "\(whole.notices)")
        #expect(time < .seconds(15))
        #expect(try killed.texts() == Self.all)
        // A byte that only one of them has, in a hole of the other.
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: killed.copy))
        try file.seek(toOffset: 8 << 30)
        try file.write(contentsOf: Data([1]))
        try file.close()
        let report = try killed.salvage("second.db", wal: killed.copy)
        #expect(report.notices.contains { $0.contains("different commits") }, "\(report.notices)")
    }

    @Test("a WAL of another store is refused, and nothing is made", arguments: [false, true])
    func foreign(isGarbage: Bool) throws {
        let wal = killed.fixture.path("foreign-wal")
        if isGarbage {
            try killed.write([UInt8](repeating: 7, count: 10_000), to: wal)
        } else {
            let path = killed.fixture.path("other.db")
            let other = try SharedStore.open(at: path, unlockedBy: .rawKey([UInt8](repeating: 9, count: 32)))
            try other.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)") }
            try killed.write(killed.bytes(path + "-wal"), to: wal)
            try other.close()
        }
        let error = #expect(throws: ToolError.self) { try killed.salvage(wal: wal) }
        #expect(error?.code == .foreignWAL && error?.why.contains("another store") == true, "\(error.debugDescription)")
        #expect(!killed.fixture.names().contains { $0.hasPrefix("out.db") })
    }

    @Test("the end of a commit that never happened is not read behind damage")
    func leftover() throws {
        let log = try killed.log()
        let ends = try killed.ends()
        // The frames of the last commit, without the one before, are what a killed process leaves.
        let first = KilledWriter.offset(ends[3] + 1)
        let second = KilledWriter.offset(ends[4] + 1)
        try killed.write(Array(log[..<first]) + Array(log[second...]), to: killed.path + "-wal")
        try killed.flip(KilledWriter.offset(ends[1]) + 24 + 700)
        let report = try killed.salvage()
        #expect(report.passedDamage.map { $0.wholeCommits + $0.partialCommits } == 3, "\(report)")
        #expect(try killed.texts() == ["1", "2", "3", "4"])
    }

    @Test("a store whose database file is missing is salvaged from its WAL, whole where the WAL has every page")
    func missingDatabase() throws {
        let store = try killed.open()
        try store.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        let log = try killed.log()
        try store.close()
        try killed.write(log, to: killed.path + "-wal")
        try FileManager.default.removeItem(atPath: killed.path)
        try? FileManager.default.removeItem(atPath: killed.path + "-shm")
        let error = #expect(throws: StoreError.self) { try killed.open() }
        #expect(error?.code == .databaseMissing && error?.why.contains("all ") == true, "\(error.debugDescription)")
        #expect(error?.remedy.contains("cipherctl salvage") == true && error?.remedy.contains("destroy") == false)
        #expect(try killed.log() == log)
        let report = try killed.salvage()
        #expect(!report.hasLosses, "\(report)")
        #expect(try killed.texts() == Self.all)
    }

    @Test("a missing database of which the WAL has a part is said to be that")
    func missingInPart() throws {
        try FileManager.default.removeItem(atPath: killed.path)
        let error = #expect(throws: StoreError.self) { try killed.open() }
        #expect(error?.why.contains(" of the ") == true && error?.remedy.contains("restore") == true)
        #expect(error?.remedy.contains("destroy") == false, "\(error.debugDescription)")
        try killed.write([], to: killed.path + "-wal")
        let none = #expect(throws: StoreError.self) { try killed.open() }
        #expect(none?.why.contains("no commit") == true && none?.remedy.contains("destroy") == false)
    }
}
