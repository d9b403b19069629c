import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

/// Sidecars that are missing, damaged, forged or another store's.
@Suite struct SidecarRefusalTests {
    @Test(
        "one missing or damaged copy is made anew from the other, and said",
        arguments: [true, false], ["missing", "damaged", "empty", "of a megabyte"])
    func oneCopy(isMain: Bool, harm: String) throws {
        for way in Opening.allCases {
            let fixture = try StoreFixture()
            let copy = isMain ? fixture.sidecar : fixture.backup
            let whole = try fixture.bytes(copy)
            switch harm {
            case "missing": try FileManager.default.removeItem(atPath: copy)
            case "damaged": try fixture.write(whole.dropLast(9), to: copy)
            case "empty": try fixture.write(Data(), to: copy)
            default: try fixture.write(Data(count: 1 << 20), to: copy)
            }
            let notices = Notices()
            var config = Configuration()
            config.onNotice = { notices.add($0) }
            try way.open(fixture.path, fixture.key, config) { writer in
                let rows = try writer.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") }
                #expect(rows == StoreFixture.rowCount)
                if let store = writer as? SharedStore { #expect(store.notices == notices.all) }
            }
            #expect(try fixture.bytes(copy) == whole, "\(way) did not repair the \(harm) copy")
            let said = notices.all.joined(separator: "\n")
            #expect(said.contains(isMain ? "main copy" : "backup copy"), "\(way) said \(said)")
            #expect(said.contains("opened with the backup") == isMain, "\(way) said \(said)")
            // The damaged file is kept, not deleted.
            #expect(FileManager.default.fileExists(atPath: copy + ".damaged") == (harm != "missing"))
        }
    }

    @Test("without both copies the salt is missing, and nothing is written in their place")
    func bothMissing() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        try FileManager.default.removeItem(atPath: fixture.sidecar)
        try FileManager.default.removeItem(atPath: fixture.backup)
        fixture.expectRefusal(.saltMissing, mentions: ["Restore the sidecar"])
        try fixture.write(whole, to: fixture.sidecar)
        fixture.expectWhole()
    }

    @Test(
        "two damaged copies are refused and kept",
        arguments: [
            Data(), Data("hello\n".utf8), Data(count: 1 << 20),
            Data((0..<700).map { UInt8(truncatingIfNeeded: $0 &* 7) }),
        ])
    func bothDamaged(content: Data) throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        try fixture.write(content, to: fixture.sidecar)
        try fixture.write(content, to: fixture.backup)
        fixture.expectRefusal(.sidecarDamaged, mentions: ["main copy", "backup copy"])
        try fixture.write(whole, to: fixture.backup)
        fixture.expectWhole()
    }

    @Test("the sidecar of another store with the same raw key is foreign")
    func foreignSameKey() throws {
        let fixture = try StoreFixture()
        let other = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        let foreign = try fixture.bytes(other.sidecar)
        try fixture.write(foreign, to: fixture.sidecar)
        try fixture.write(foreign, to: fixture.backup)
        fixture.expectRefusal(.foreignSidecar, mentions: ["app.db-sidecar"])
        // One copy of each: nobody can know which is right without the file, so it is left to the owner.
        try fixture.write(whole, to: fixture.backup)
        fixture.expectRefusal(.foreignSidecar)
        try fixture.write(whole, to: fixture.sidecar)
        fixture.expectWhole()
    }

    @Test("the sidecar of another store with the same passphrase is foreign, with another one the key is wrong")
    func foreignByPassphrase() throws {
        let fixture = try StoreFixture(key: .passphrase("one"))
        let whole = try fixture.bytes(fixture.sidecar)
        for (passphrase, code) in [("one", StoreError.Code.foreignSidecar), ("two", .wrongKey)] {
            let other = try StoreFixture(key: .passphrase(passphrase))
            let foreign = try fixture.bytes(other.sidecar)
            try fixture.write(foreign, to: fixture.sidecar)
            try fixture.write(foreign, to: fixture.backup)
            fixture.expectRefusal(code, ways: [.sharedStore, .pool])
        }
        try fixture.write(whole, to: fixture.sidecar)
        try fixture.write(whole, to: fixture.backup)
        fixture.expectWhole(ways: [.sharedStore, .pool])
    }

    @Test(
        "a sidecar changed without the key is refused as forged",
        arguments: [
            ("\"state\":\"ready\"", "\"state\":\"creating\""), ("\"epoch\":1", "\"epoch\":2"),
            ("\"generation\":2", "\"generation\":9"), ("\"page_bytes\":4096", "\"page_bytes\":8192"),
            ("\"kdf_rounds\":256000", "\"kdf_rounds\":1"),
            ("\"plaintext_header_bytes\":32", "\"plaintext_header_bytes\":0"),
            ("\"hmac_hash\":\"sha512\"", "\"hmac_hash\":\"sha1\""),
            ("\"kdf_hash\":\"sha512\"", "\"kdf_hash\":\"sha1\""),
        ])
    func forged(original: String, forged: String) throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        let text = String(decoding: whole, as: UTF8.self)
        #expect(text.contains(original))
        let changed = Data(text.replacingOccurrences(of: original, with: forged).utf8)
        try fixture.write(changed, to: fixture.sidecar)
        try fixture.write(changed, to: fixture.backup)
        fixture.expectRefusal(.sidecarForged, mentions: ["backup of the store"])
        // A genuine copy wins, and the forged one is kept for an examination.
        try fixture.write(whole, to: fixture.backup)
        fixture.expectWhole()
        #expect(try fixture.bytes(fixture.sidecar) == whole)
        #expect(try fixture.bytes(fixture.sidecar + ".damaged") == changed)
    }

    @Test("a sidecar of a later version is refused, and neither copy is touched")
    func ahead() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        let text = "{\"format\":\"cipherstore-sidecar\",\"version\":4}\n{\"record\":\"news\"}\n{\"mac\":\"00\"}\n"
        try fixture.write(Data(text.utf8), to: fixture.sidecar)
        fixture.expectRefusal(.sidecarAhead, mentions: ["newer version"])
        try fixture.write(whole, to: fixture.sidecar)
        fixture.expectWhole()
    }

    @Test("a directory in the place of a copy is no reason to lose the other")
    func directoryAsSidecar() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.backup)
        try FileManager.default.removeItem(atPath: fixture.sidecar)
        try FileManager.default.createDirectory(atPath: fixture.sidecar, withIntermediateDirectories: false)
        fixture.expectWhole()
        #expect(try fixture.bytes(fixture.backup) == whole)
    }

    @Test("stray temporary files beside a sidecar change nothing")
    func strayFiles() throws {
        let fixture = try StoreFixture()
        for name in [".tmp", ".damaged", ".bak.tmp", "~"] {
            try fixture.write(Data("x".utf8), to: fixture.sidecar + name)
        }
        fixture.expectWhole()
    }
}

/// The notices of an opening.
final class Notices: Sendable {
    private let texts = Mutex<[String]>([])
    var all: [String] { texts.withLock { $0 } }
    func add(_ text: String) { texts.withLock { $0.append(text) } }
}
