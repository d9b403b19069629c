import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import TestKit
import Testing

@testable import RecoveryShares

@Suite("Combining shares of a recovery key")
struct RecoveryShareSetTests {
    private func shares(_ key: RawKey, set: UInt32 = 7, threshold: Int = 3, count: Int = 5) throws -> [RecoveryShare] {
        try RecoveryShare.split(key, count: count, threshold: threshold, set: set)
    }

    private func collect(_ shares: [RecoveryShare]) throws -> RecoveryShareSet {
        var set = RecoveryShareSet()
        for share in shares { try set.add(share) }
        return set
    }

    /// A share with another byte, whose lines match their checks.
    private func wrong(_ share: RecoveryShare, by mask: UInt8 = 1) -> RecoveryShare {
        let values = SecretBytes(count: share.values.count) { output in
            share.values.withBytes { output.copyMemory(from: $0) }
            output[5] ^= mask
        }
        return RecoveryShare(header: share.header, values: values)
    }

    @Test("shares of other sets, and repeated ones, are named and not taken")
    func strangers() throws {
        let key = try RawKey.random()
        let (own, other) = (try shares(key), try shares(key, set: 8))
        var set = try collect([own[3]])
        #expect(set.missing == 2)
        #expect(throws: RecoveryShareSet.Refusal.repeated(number: 4)) { try set.add(own[3]) }
        let stranger = RecoveryShareSet.Refusal.otherSet(number: 2, set: "00000008", expected: "00000007")
        #expect(throws: stranger) { try set.add(other[1]) }
        #expect(set.missing == 2 && set.shares.count == 1)
        #expect(throws: RecoveryShareSet.Refusal.missing(2)) { try set.combine() }
        #expect(throws: RecoveryShareSet.Refusal.missing(nil)) { try RecoveryShareSet().combine() }
    }

    @Test("a wrong share is noticed, and named once there is one share more")
    func wrongShare() throws {
        let key = try RawKey.random()
        let own = try shares(key)
        let three = try collect([own[4], wrong(own[1]), own[0]])
        #expect(throws: RecoveryShareSet.Refusal.wrongShare(among: [1, 2, 5])) { try three.combine() }
        for place in 0..<4 {
            var four = Array(own.prefix(4))
            four[place] = wrong(four[place])
            let combined = try collect(four).combine()
            #expect(combined.misfits == [place + 1] && combined.key.bytes.isEqual(to: key.bytes))
        }
        #expect(try collect(own).combine().misfits.isEmpty)
    }

    // Story: two wrong shares can give the key together, and then honest ones were called wrong.
    @Test("wrong shares that give the key together are the ones that are named")
    func wrongSharesTogether() throws {
        let own = try RecoveryShare.split(RawKey.random(), count: 7, threshold: 3, set: 9)
        for byte in UInt8(1)...255 {
            let forged = [wrong(own[0]), wrong(own[1], by: byte)] + own.dropFirst(2)
            #expect(try collect(forged).combine().misfits == [1, 2])
        }
    }

    @Test("other numbers of shares are refused")
    func counts() throws {
        for (count, threshold) in [(1, 1), (5, 1), (2, 3), (17, 3), (0, 0), (5, -1)] {
            #expect(storeError { _ = try RecoveryShare.makeKey(count: count, threshold: threshold) } == .invalidKey)
        }
    }

    @Test("a program adds a recovery key in shares, and files of them open the store")
    func program() throws {
        let folder = TemporaryFolder()
        let path = folder.path("s.db")
        let store = try SharedStore.open(at: path, unlockedBy: .rawKey([UInt8](repeating: 0x2a, count: 32)))
        let new = try store.keys.addRecoveryShares(count: 4, threshold: 2, label: "board")
        #expect(
            new.slot.kind == .recovery && new.slot.label == "board" && new.describe() == "NewRecoveryShares(slot 2)")
        var files: [String] = []
        try new.show { share in
            files.append(folder.path("share-\(share.header.number)"))
            let text = share.withText { share.caption + "\n" + String(decoding: $0, as: UTF8.self) }
            try write(text, to: files[files.count - 1])
        }
        let events = try String(contentsOf: URL(filePath: path + "-keylog"), encoding: .utf8)
        #expect(events.contains("recovery-key-made"))
        #expect(try store.keys.test(.recoveryShares(files: [files[3], files[0]]))?.number == 2)
        try store.close()
        let opened = try SharedStore.open(at: path, unlockedBy: .recoveryShares(files: Array(files[1...])))
        try opened.close()
        func code(_ files: [String]) -> StoreError.Code? {
            storeError { _ = try SharedStore.open(at: path, unlockedBy: .recoveryShares(files: files)) }
        }
        #expect(
            code([files[0]]) == .keyMissing && code([]) == .keyMissing && code([files[0], files[0]]) == .invalidKey)
        try write("hello", to: files[0])
        #expect(code([files[0], files[1]]) == .invalidKey)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: files[1])
        #expect(code([files[1], files[2]]) == .invalidKey)
    }

    private func write(_ text: String, to path: String) throws {
        try #require(
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600]))
    }
}
