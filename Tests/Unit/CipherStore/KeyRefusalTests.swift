import CipherStore
import Foundation
import TestKit
import Testing

/// Keys that are not the store's.
@Suite struct KeyRefusalTests {
    @Test("a wrong raw key is told as such in every way of opening, and changes nothing")
    func wrongRawKey() throws {
        let fixture = try StoreFixture()
        fixture.expectRefusal(.wrongKey, with: .raw(0x2b), mentions: ["Check the key"])
        fixture.expectWhole()
    }

    @Test("a wrong passphrase is told as such, and the right one opens afterwards")
    func wrongPassphrase() throws {
        let fixture = try StoreFixture(key: .passphrase("sesame street"))
        fixture.expectRefusal(.wrongKey, with: .passphrase("sesame stret"), ways: [.sharedStore, .pool])
        // A passphrase where a raw key belongs is wrong too.
        fixture.expectRefusal(.wrongKey, with: .raw(1), ways: [.sharedStore, .queue])
        fixture.expectWhole(ways: [.sharedStore, .queueAssigned])
    }

    @Test("a salt changed in both copies makes the right passphrase wrong, and the error says where to look")
    func wrongSaltByPassphrase() throws {
        let fixture = try StoreFixture(key: .passphrase("sesame street"))
        let whole = try fixture.bytes(fixture.sidecar)
        let changed = try changingSalt(whole)
        try fixture.write(changed, to: fixture.sidecar)
        try fixture.write(changed, to: fixture.backup)
        fixture.expectRefusal(.wrongKey, mentions: ["salt in the sidecar was changed"], ways: [.sharedStore, .pool])
        try fixture.write(whole, to: fixture.sidecar)
        try fixture.write(whole, to: fixture.backup)
        fixture.expectWhole(ways: [.sharedStore, .pool])
    }

    @Test("a salt changed in both copies is a forgery to the holder of a raw key")
    func wrongSaltByRawKey() throws {
        let fixture = try StoreFixture()
        let whole = try fixture.bytes(fixture.sidecar)
        let changed = try changingSalt(whole)
        try fixture.write(changed, to: fixture.sidecar)
        try fixture.write(changed, to: fixture.backup)
        fixture.expectRefusal(.sidecarForged)
        try fixture.write(whole, to: fixture.sidecar)
        try fixture.write(whole, to: fixture.backup)
        fixture.expectWhole()
    }

    @Test(
        "passphrases that SQLCipher would misunderstand are refused before any file is made",
        arguments: ["", "x'", "x'0011'", "X'aa", "x'" + String(repeating: "0", count: 64) + "'"])
    func unusablePassphrases(passphrase: String) throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        for way in Opening.allCases {
            let error = #expect(throws: StoreError.self) {
                try way.open(path, .passphrase(passphrase)) { _ in }
            }
            #expect(error?.code == .invalidKey, "\(way)")
            if passphrase.count > 2 { #expect(error?.description.contains(passphrase) == false) }
        }
        #expect(
            FolderSnapshot(of: folder).names.allSatisfy {
                FileManager.default.contents(atPath: folder.path($0)) == Data()
            })
        // Begun work does not stand in the way.
        #expect(throws: Never.self) { try StoreFixture.fill(path, .raw(1)) }
    }

    @Test("raw keys of another length than 32 bytes are refused", arguments: [0, 16, 31, 33, 64])
    func rawKeyLength(count: Int) throws {
        let folder = TemporaryFolder()
        #expect(
            storeError {
                try SharedStore.open(
                    at: folder.path("app.db"), unlockedBy: .rawKey([UInt8](repeating: 1, count: count)))
            } == .invalidKey)
        var config = Configuration()
        config.prepareDatabase { try $0.useRawKey(Data(repeating: 1, count: count)) }
        #expect(storeError { try DatabasePool(path: folder.path("app.db"), configuration: config) } == .invalidKey)
    }

    @Test("a file database without any key is refused, a database in memory is not")
    func noKey() throws {
        let fixture = try StoreFixture()
        for path in [fixture.path, fixture.folder.path("new.db")] {
            #expect(storeError { try DatabasePool(path: path) } == .keyMissing)
            #expect(storeError { try DatabaseQueue(path: path) } == .keyMissing)
            var config = Configuration()
            config.prepareDatabase { try $0.execute(sql: "PRAGMA cache_size = 100; SELECT 1") }
            #expect(storeError { try DatabaseQueue(path: path, configuration: config) } == .keyMissing)
            config.prepareDatabase = nil
            #expect(storeError { try DatabaseQueue(path: path, configuration: config) } == .keyMissing)
        }
        #expect(try DatabaseQueue().read { try Int.fetchOne($0, sql: "SELECT 1") } == 1)
        fixture.expectWhole()
    }

    /// Turns the first digit of the salt in a sidecar into another one.
    private func changingSalt(_ sidecar: Data) throws -> Data {
        let text = String(decoding: sidecar, as: UTF8.self)
        let start = try #require(text.range(of: "\"salt\":\"")).upperBound
        let digit = text[start] == "0" ? "1" : "0"
        return Data(text.replacingCharacters(in: start...start, with: digit).utf8)
    }
}
