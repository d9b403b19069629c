import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

/// The first write after the damage of a WAL destroyed the authentic commits behind the damage.
@Suite("A damaged WAL is kept before it is overwritten")
struct DamagedWALTests {
    private let killed: KilledWriter

    init() throws { killed = try KilledWriter() }

    enum Damage: String, CaseIterable, Sendable {
        case page, checksum, salt, count, header, firstSector, plainByteOfPageOne, changeCounterOfPageOne
    }

    /// Damages the WAL in its middle.
    private func damage(_ damage: Damage) throws {
        let frame = try killed.ends()[1]
        let offset = KilledWriter.offset(frame)
        let page1 = KilledWriter.offset(try killed.frameOfPageOne())
        switch damage {
        case .page: try killed.flip(offset + 24 + 700)
        case .checksum: try killed.flip(offset + 17)
        case .salt: try killed.flip(offset + 9)
        case .count: try killed.flip(offset + 7)
        case .header: try killed.flip(20)
        case .firstSector:
            let noise = (0..<512).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ 7) }
            try killed.write(noise + killed.log().dropFirst(512), to: killed.path + "-wal")
        case .plainByteOfPageOne: try killed.flip(page1 + 24 + 21)
        case .changeCounterOfPageOne: try killed.flip(page1 + 24 + 27)
        }
    }

    @Test("the first opening for writing keeps the whole WAL, says where, and goes on", arguments: Damage.allCases)
    func kept(_ damage: Damage) throws {
        try self.damage(damage)
        let log = try killed.log()
        // Reading keeps nothing and changes nothing.
        for command in 0..<2 {
            if command == 0 {
                _ = try StoreStatus(killed.path, unlockedBy: killed.source).run()
            } else {
                _ = try StoreVerification(killed.path, unlockedBy: killed.source).run()
            }
            #expect(try killed.copies().isEmpty && killed.log() == log)
        }
        let notices = try killed.use()
        #expect(killed.copies() == ["killed.db-wal-damaged"])
        #expect(try killed.bytes(killed.copy) == log)
        let command = "cipherctl salvage '\(killed.path)' NEW --wal '\(killed.copy)'"
        #expect(notices.count == 1 && notices[0].contains(command), "\(notices)")
        let attributes = try FileManager.default.attributesOfItem(atPath: killed.copy)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test("openings that find the same WAL again make no second copy, and those of another damage do")
    func once() throws {
        try damage(.page)
        // Without a write, and with one that overwrites a part of what is behind the damage.
        for _ in 0..<3 {
            let store = try killed.open()
            #expect(store.notices.contains { $0.contains("-wal-damaged") }, "\(store.notices)")
            // A killed process leaves the WAL as it is.
            let left = try killed.log()
            try store.close()
            try killed.write(left, to: killed.path + "-wal")
        }
        let store = try killed.open()
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'small' WHERE id = 2") }
        let left = try killed.log()
        try store.close()
        try killed.write(left, to: killed.path + "-wal")
        _ = try killed.use()
        #expect(killed.copies() == ["killed.db-wal-damaged"])
        let other = try KilledWriter()
        try other.flip(KilledWriter.offset(3) + 24 + 700)
        try FileManager.default.copyItem(atPath: killed.copy, toPath: other.copy)
        _ = try other.use()
        #expect(other.copies() == ["killed.db-wal-damaged", "killed.db-wal-damaged-2"])
    }

    @Test("no copy is made of what a kill, a rollback or a reset leaves")
    func nothingLost() throws {
        let log = try killed.log()
        let ends = try killed.ends()
        for frame in 1..<(try killed.frames()) where !ends.contains(frame) {
            try killed.write(Array(log[..<KilledWriter.offset(frame + 1)]), to: killed.path + "-wal")
            let store = try killed.open()
            #expect(store.notices.isEmpty, "\(store.notices)")
            try store.close()
        }
        #expect(killed.copies().isEmpty)
    }

    enum LastPage: String, CaseIterable, Sendable { case flipped, ofFormerFrame, zeros }

    /// The next write dropped a damaged last commit without a word and without a copy: a kill seemed to leave the same.
    @Test(
        "a changed page of the last frame is kept; the page of a former frame, and zeros, are what a kill leaves",
        arguments: LastPage.allCases)
    func lastCommit(_ page: LastPage) throws {
        let ends = try killed.ends()
        // The frames before the last one of its commit are authentic.
        let index = try #require(ends.indices.dropFirst().last { ends[$0] - ends[$0 - 1] > 1 })
        let start = KilledWriter.offset(ends[index]) + 24
        var log = Array(try killed.log().prefix(start + 4096))
        switch page {
        case .flipped: log[start + 2000] ^= 1
        case .zeros: log.replaceSubrange(start..., with: [UInt8](repeating: 0, count: 4096))
        case .ofFormerFrame:
            let former = try #require(
                (1..<ends[index]).first {
                    log.bigEndian(at: KilledWriter.offset($0)) != log.bigEndian(at: KilledWriter.offset(ends[index]))
                })
            let page = Array(log[(KilledWriter.offset(former) + 24)..<KilledWriter.offset(former + 1)])
            log.replaceSubrange(start..., with: page)
        }
        try killed.write(log, to: killed.path + "-wal")
        let notices = try killed.use()
        guard page == .flipped else {
            #expect(notices.isEmpty && killed.copies().isEmpty, "\(notices)")
            return
        }
        #expect(killed.copies() == ["killed.db-wal-damaged"])
        #expect(try killed.bytes(killed.copy) == log)
        #expect(notices.count == 1 && notices[0].contains("cipherctl salvage"), "\(notices)")
    }

    /// The opening refuses, and leaves everything as it is: a close would empty the WAL.
    @Test("an opening that can keep no copy is refused, and changes nothing; reading goes on")
    func refused() throws {
        try damage(.page)
        let log = try killed.log()
        let database = try killed.bytes(killed.path)
        // Names that are taken by folders stand for a disk that takes no file.
        for number in 1...40 {
            let name = number == 1 ? killed.copy : "\(killed.copy)-\(number)"
            try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: false)
        }
        for _ in 0..<2 {
            let error = #expect(throws: StoreError.self) { try killed.open() }
            #expect(error?.code == .walDamaged, "\(error.debugDescription)")
            #expect(error?.what.contains("not opened for writing") == true)
            #expect(error?.remedy.contains("cipherctl salvage") == true)
            #expect(try killed.log() == log && killed.bytes(killed.path) == database)
        }
        let store = try #require(try SharedStore.openReadOnly(at: killed.path, unlockedBy: killed.source))
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 2)
        try store.close()
        #expect(try killed.log() == log)
    }

    @Test("status, verify and doctor say what is lost and what is kept, and with which command it is read")
    func reported() throws {
        try damage(.changeCounterOfPageOne)
        for isKept in [false, true] {
            if isKept { _ = try killed.use() }
            let status = try StoreStatus(killed.path, unlockedBy: killed.source).run()
            let found = status.attention.filter { $0.contains("WAL") }
            #expect(found.count == 1 && found[0].contains("cipherctl salvage"), "\(status.attention)")
            #expect(found[0].contains("--wal") == isKept)
            let doctor = try StoreExamination(killed.path, unlockedBy: killed.source).run()
            #expect(doctor.findings.contains { $0.text.contains("cipherctl salvage") }, "\(doctor.findings)")
            let verified = try StoreVerification(killed.path, unlockedBy: killed.source).run()
            #expect(verified.needsAttention != isKept, "\(verified.unchecked)")
        }
        let report = try SharedStore.destroy(at: killed.path)
        #expect(report.removed.contains(killed.copy) && killed.copies().isEmpty)
    }

    @Test("what a killed opening left of a copy is removed, and a planted link is not followed")
    func leftovers() throws {
        try damage(.page)
        let log = try killed.log()
        let victim = killed.fixture.path("victim")
        try killed.write([1, 2, 3], to: victim)
        try FileManager.default.createSymbolicLink(atPath: killed.copy, withDestinationPath: victim)
        try killed.write(Array(log.prefix(5000)), to: killed.copy + ".tmp-99999999-0123abcd")
        _ = try killed.use()
        #expect(killed.copies() == ["killed.db-wal-damaged", "killed.db-wal-damaged-2"])
        #expect(try killed.bytes(killed.copy + "-2") == log && killed.bytes(victim) == [1, 2, 3])
        let doctor = try StoreExamination(killed.path, unlockedBy: killed.source).run()
        #expect(doctor.findings.contains { $0.name == "planted" }, "\(doctor.findings)")
        #expect(doctor.findings.contains { $0.name == "walKept" }, "\(doctor.findings)")
        // A destruction removes the copy, and leaves the link.
        try SharedStore.destroy(at: killed.path)
        #expect(killed.copies() == ["killed.db-wal-damaged"])
    }

    @Test("the name of a copy belongs to the store: no other store is made there")
    func name() throws {
        for name in [killed.copy, killed.copy + "-2"] {
            let error = #expect(throws: StoreError.self) { try SharedStore.open(at: name, unlockedBy: killed.source) }
            #expect(error?.code == .storeName)
        }
    }
}
