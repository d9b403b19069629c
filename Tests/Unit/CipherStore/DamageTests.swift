import CipherStore
import Foundation
import TestKit
import Testing

/// Stores whose file was cut or changed.
@Suite struct DamageTests {
    @Test("a file cut by a page, by half a page, to one page or to a few bytes is truncated, and opens when put back")
    func truncated() throws {
        let fixture = try StoreFixture()
        let count = try fixture.bytes().count
        for kept in [count - 4096, count - 2048, count - 1, 8192, 4096, 4095, 512, 100, 16, 1] {
            try fixture.withDatabase(changed: { $0 = $0.prefix(kept) }) {
                fixture.expectRefusal(
                    .truncated, mentions: ["it has \(kept) byte"], changing: StoreFixture.sharingFiles)
            }
        }
        fixture.expectWhole()
    }

    @Test("a file with foreign bytes behind its last page is not trusted")
    func grown() throws {
        let fixture = try StoreFixture()
        try fixture.withDatabase(changed: { $0 += Data(repeating: 7, count: 4096) }) {
            fixture.expectRefusal(
                .headerDamaged, mentions: ["bytes 28 to 31"], changing: StoreFixture.sharingFiles)
        }
        fixture.expectWhole()
    }

    @Test("each byte of the plain header is checked: one flip anywhere is refused before anything is read or written")
    func headerBytes() throws {
        let fixture = try StoreFixture()
        for offset in 0..<24 {
            // Each refusal takes the 100 ms for which a check is repeated, so the ways take turns.
            let way = Opening.allCases[offset % Opening.allCases.count]
            try fixture.withDatabase(changed: { $0[offset] ^= offset % 2 == 0 ? 0x01 : 0x80 }) {
                fixture.expectRefusal(.headerDamaged, mentions: ["Byte \(offset) "], ways: [way])
            }
        }
        fixture.expectWhole()
    }

    @Test("a page count that was lowered or raised in the header is refused")
    func pageCount() throws {
        let fixture = try StoreFixture()
        for (count, code) in [(1, StoreError.Code.headerDamaged), (20, .headerDamaged), (5000, .truncated)] {
            try fixture.withDatabase(changed: { $0.replaceSubrange(28..<32, with: bigEndian(UInt32(count))) }) {
                fixture.expectRefusal(code, changing: StoreFixture.sharingFiles)
            }
        }
        fixture.expectWhole()
    }

    @Test("a page count of zero is left to SQLite, which takes the length of the file instead")
    func pageCountZero() throws {
        let fixture = try StoreFixture()
        try fixture.withDatabase(changed: { $0.replaceSubrange(28..<32, with: bigEndian(0)) }) {
            fixture.expectWhole()
        }
    }

    @Test(
        "a flipped byte in page 1 is damage of that page, wherever it is",
        arguments: [32, 33, 100, 2000, 4015, 4016, 4095])
    func firstPage(offset: Int) throws {
        let fixture = try StoreFixture()
        try fixture.withDatabase(changed: { $0[offset] ^= 0x10 }) {
            fixture.expectRefusal(.pageDamaged(1), mentions: ["Page 1", "cipherctl verify"])
        }
        fixture.expectWhole()
    }

    @Test("a file that has lost its beginning is not called foreign while a page of it fits the key")
    func lostBeginning() throws {
        // Story: "none of the file's first pages" fitted, and the operator was sent to look for another sidecar.
        let fixture = try StoreFixture()
        for filler in [UInt8(0), 0xa7] {
            let noise = (0..<4096).map { filler == 0 ? 0 : UInt8(truncatingIfNeeded: $0 * 151 + $0 / 7) }
            try fixture.withDatabase(changed: { $0.replaceSubrange(0..<32, with: noise[..<32]) }) {
                fixture.expectRefusal(.headerDamaged, mentions: ["first 32 bytes", "cipherctl salvage"])
            }
            try fixture.withDatabase(changed: { $0.replaceSubrange(0..<4096, with: noise) }) {
                fixture.expectRefusal(.pageDamaged(1), mentions: ["Page 1", "cipherctl verify"])
            }
        }
        fixture.expectWhole()
    }

    @Test("a later sidecar of another store that lies beside a damaged one does not hide the damage")
    func strayCopy() throws {
        // Story: what the copy claims was believed without a key, so that the store passed for one that had been replaced
        // while it was opened: after five attempts storeMoved came in the place of what was wrong with the file.
        let fixture = try StoreFixture(key: .raw(0x55))
        let other = try KeyslotFixture()
        for word in ["one", "two", "three"] { try other.add(word) }
        try fixture.write(fixture.bytes(other.path + "-sidecar"), to: fixture.backup)
        try fixture.withDatabase(changed: { $0[100] ^= 0x10 }) { fixture.expectRefusal(.pageDamaged(1)) }
        try fixture.withDatabase(changed: { $0 = $0.prefix(4096) }) {
            // Page 1 proves the key, and the stray copy is set aside and replaced.
            fixture.expectRefusal(
                .truncated,
                changing: StoreFixture.sharingFiles.union(["app.db-sidecar.bak", "app.db-sidecar.bak.damaged"]))
        }
    }

    @Test("a flipped byte in another page fails the statements that read it, and only those")
    func otherPage() throws {
        let fixture = try StoreFixture()
        let pages = try fixture.bytes().count / 4096
        try fixture.withDatabase(changed: { $0[(pages - 2) * 4096 + 77] ^= 1 }) {
            for way in Opening.allCases {
                let error = #expect(throws: (any Error).self, "\(way)") { try fixture.count(way) }
                #expect(
                    (error as? DatabaseError)?.resultCode == .SQLITE_CORRUPT, "\(way): \(String(describing: error))")
                // The schema is still there to be read.
                let tables = try way.open(fixture.path, fixture.key) { writer in try writer.read { try $0.tableNames() }
                }
                #expect(tables == ["note"])
            }
        }
        fixture.expectWhole()
    }

    @Test("two pages that changed places are damage, not data")
    func swappedPages() throws {
        let fixture = try StoreFixture()
        try fixture.withDatabase(changed: { bytes in
            let third = Data(bytes[8192..<12_288])
            bytes.replaceSubrange(8192..<12_288, with: Data(bytes[12_288..<16_384]))
            bytes.replaceSubrange(12_288..<16_384, with: third)
        }) {
            for way in Opening.allCases {
                let error = #expect(throws: (any Error).self) { try fixture.count(way) }
                #expect(
                    (error as? DatabaseError)?.resultCode == .SQLITE_CORRUPT, "\(way): \(String(describing: error))")
            }
        }
        fixture.expectWhole()
    }

    @Test("a damaged page is no reason to lose what is in the log")
    func damageKeepsLog() throws {
        let fixture = try StoreFixture()
        // A copy of the files while the log holds rows, as a killed process would leave them.
        let image = TemporaryFolder()
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            try writer.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('note in the log')") }
            for name in ["app.db", "app.db-wal", "app.db-sidecar", "app.db-sidecar.bak"] {
                try FileManager.default.copyItem(atPath: fixture.folder.path(name), toPath: image.path(name))
            }
        }
        var main = try fixture.bytes(image.path("app.db"))
        main[100] ^= 1
        try fixture.write(main, to: image.path("app.db"))
        let log = try fixture.bytes(image.path("app.db-wal"))
        #expect(log.count > 4096)
        for way in Opening.allCases {
            #expect(
                storeError { try way.open(image.path("app.db"), fixture.key) { _ in } } == .pageDamaged(1), "\(way)")
            #expect(try fixture.bytes(image.path("app.db-wal")) == log)
        }
        main[100] ^= 1
        // Cut in the middle, where the log does not help: it must not be copied into such a file by closing it.
        try fixture.write(main.prefix(40_960), to: image.path("app.db"))
        for way in Opening.allCases {
            #expect(storeError { try way.open(image.path("app.db"), fixture.key) { _ in } } == .truncated, "\(way)")
            #expect(try fixture.bytes(image.path("app.db")) == main.prefix(40_960))
            #expect(try fixture.bytes(image.path("app.db-wal")) == log)
        }
        try fixture.write(main, to: image.path("app.db"))
        #expect(
            try Opening.sharedStore.open(image.path("app.db"), fixture.key) { writer in
                try writer.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") }
            } == StoreFixture.rowCount + 1)
    }

    private func bigEndian(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
}
