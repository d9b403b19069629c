import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreTools
import Synchronization

/// Attacks on a sample store: each is noticed, or is a known limit.
///
/// They are made on threads of their own while the pages of the store are scanned: a program that sees damage reads
/// again for a while, so most of their time is waiting.
final class AttackChecks: Sendable {
    private let store: any StoreUnderTest
    private let threads = DispatchGroup()
    private let state = Mutex(State())

    private struct State {
        var sample: Result<SampleStore, any Error>?
        var results: [CheckResult] = []
    }

    /// Begins the attacks.
    ///
    /// - Parameter isStore: Whether the file under test is a store; nothing is attacked otherwise.
    init(store: any StoreUnderTest, isStore: Bool) {
        self.store = store
        guard isStore else { return }
        let made = Result<SampleStore, any Error> { try SampleStore() }
        state.withLock { $0.sample = made }
        guard case .success(let sample) = made else { return }
        for attack in Check.allCases where attack.isAttack {
            threads.enter()
            Thread { [self] in
                let result = result(of: attack, sample)
                state.withLock { $0.results.append(result) }
                threads.leave()
            }.start()
        }
    }

    /// The sample store; nil where the file under test is no store.
    var sample: Result<SampleStore, any Error>? { state.withLock { $0.sample } }

    /// Waits for the attacks, and removes the sample store.
    func finish() {
        threads.wait()
        try? sample?.get().remove()
    }

    /// Attacks that nothing within the files can show, and what would.
    private static let limits: [Check: String] = [
        .attackSamePageKey:
            "a person with the data key and the salt can write authentic pages: rotate after a key has leaked",
        .attackOldPage: "a counter for each page outside of the file, or a hash of the whole file kept elsewhere",
        .attackOldFiles: "a counter outside of the machine, compared with the store's generation",
        .attackLostWAL: "the number of the last commit, kept outside; `cipherctl backup verify` of a newer backup",
        .attackDamagedWAL:
            "the number of the last commit, kept outside; `cipherctl verify` notes a WAL without content",
    ]

    /// Waits for the results.
    func results() -> [CheckResult] {
        let attacks = Check.allCases.filter(\.isAttack)
        switch sample {
        case nil:
            return attacks.map { CheckResult($0, .notApplicable, "the file is not a store of this library") }
        case .failure(let error):
            return attacks.map { CheckResult($0, .notApplicable, "no sample store could be made: \(error)") }
        case .success:
            threads.wait()
            return state.withLock { $0.results }
        }
    }

    private func result(of attack: Check, _ sample: SampleStore) -> CheckResult {
        do {
            // A sample that was not attacked must pass, or nothing would be shown.
            let path = try SampleAttack(sample: sample).perform(attack)
            let remarks: [String]
            do {
                remarks = try store.read(attacked: path, unlockedBy: sample.source)
            } catch {
                return CheckResult(attack, .pass, "noticed: \(Self.text(error))")
            }
            let seen = remarks.map { "a remark only, about the attacked copy: \($0)" }
            if let limit = Self.limits[attack] {
                return CheckResult(
                    attack, .knownLimit,
                    ["not noticed, as the threat model says"] + seen + ["would notice it: \(limit)"])
            }
            return CheckResult(
                attack, .fail, ["not noticed"] + seen, remedy: "Do not open stores through this program.")
        } catch {
            return CheckResult(attack, .notApplicable, "the attack could not be made: \(error)")
        }
    }

    private static func text(_ error: any Error) -> String {
        switch error {
        case let error as StoreError: "\(error.code.name): \(error.what)"
        default: "\(error)"
        }
    }
}

/// Makes an attacked copy of a sample.
private struct SampleAttack {
    let sample: SampleStore

    private var pageBytes: Int { sample.pageBytes }

    /// - Returns: The path of the attacked database.
    func perform(_ attack: Check) throws -> String {
        var files = sample.late
        // A page that a checkpoint has copied is attacked in the database file, because no frame in the WAL replaces
        // it.
        if ![.attackLostWAL, .attackDamagedWAL, .attackOldFiles].contains(attack) { files["-wal"] = nil }
        var main = files[""] ?? []
        let pages = main.count / pageBytes
        switch attack {
        case .attackBitFlip: main[(pages / 2) * pageBytes + 1000] ^= 0x10
        case .attackSwappedPages: try exchange(&main, pages - 2, pages - 1)
        case .attackOtherSalt: try rewrite(&main, page: pages - 1, otherSalt: true)
        case .attackTruncation: main.removeLast(pageBytes)
        case .attackReserve: main[DatabaseHeader.Offset.reservedBytes] = 0
        case .attackPageCount: main[DatabaseHeader.Offset.pageCount + 3] -= 3
        case .attackEmptyFile: main = []
        case .attackSidecar:
            for suffix in ["-sidecar", "-sidecar.bak"] { files[suffix] = files[suffix].map(Self.changed) }
        case .attackSamePageKey: try rewrite(&main, page: leaf(main), otherSalt: false)
        case .attackOldPage: try putBack(&main)
        case .attackOldFiles: return try sample.place(sample.early)
        case .attackLostWAL: files["-wal"] = nil
        case .attackDamagedWAL: files["-wal"]?[WALHeader.headerBytes + 100] ^= 1
        default: break
        }
        files[""] = main
        let path = try sample.place(files)
        if attack == .attackPlainWriter { _ = try StockConnection.destroyFirstPage(of: path) }
        return path
    }

    /// A digit of the salt is changed, which keeps the form of the sidecar.
    private static func changed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        let text = String(decoding: bytes, as: UTF8.self)
        guard let salt = text.range(of: "\"salt\"") else {
            if !bytes.isEmpty { bytes[bytes.count / 2] ^= 1 }
            return bytes
        }
        let offset = text.utf8.distance(from: text.startIndex, to: salt.upperBound)
        if let digit = bytes[offset...].firstIndex(where: { (0x30...0x39).contains($0) }) { bytes[digit] ^= 1 }
        return bytes
    }

    private func range(_ page: Int) -> Range<Int> { (page - 1) * pageBytes..<page * pageBytes }

    private func exchange(_ main: inout [UInt8], _ one: Int, _ other: Int) throws {
        let bytes = Array(main[range(one)])
        main.replaceSubrange(range(one), with: main[range(other)])
        main.replaceSubrange(range(other), with: bytes)
    }

    /// The last page of rows.
    private func leaf(_ main: [UInt8]) throws -> Int {
        var codec = try PageCodec(keys: PageKeys(sample.pageKey()))
        for page in (2...main.count / pageBytes).reversed() where try plain(main, page, &codec)[0] == 13 { return page }
        return main.count / pageBytes
    }

    private func plain(_ main: [UInt8], _ page: Int, _ codec: inout PageCodec) throws -> [UInt8] {
        var plain = [UInt8](repeating: 0, count: pageBytes)
        try main[range(page)].withUnsafeBytes { source in
            try plain.withUnsafeMutableBytes { try codec.decrypt(source, number: UInt32(page), into: $0) }
        }
        return plain
    }

    /// Another content of a page, under the same key.
    private func rewrite(_ main: inout [UInt8], page: Int, otherSalt: Bool) throws {
        let key = try sample.pageKey()
        var codec = try PageCodec(keys: PageKeys(key))
        var content = try plain(main, page, &codec)
        // The last byte of the oldest row of the page: a digit or letter of its text.
        let last = content.count - CipherSettings.plaintextHeader.reservedBytes - 1
        content[last] = content[last] == 0x30 ? 0x31 : 0x30
        let salt = otherSalt ? try Salt.random() : key.salt
        var writer = try PageCodec(keys: PageKeys(PageKey(key.dataKey, salt: salt, settings: key.settings)))
        var encrypted = [UInt8](repeating: 0, count: pageBytes)
        try content.withUnsafeBytes { source in
            try encrypted.withUnsafeMutableBytes { try writer.encrypt(source, number: UInt32(page), into: $0) }
        }
        main.replaceSubrange(range(page), with: encrypted)
    }

    /// A page of rows gets its former image.
    private func putBack(_ main: inout [UInt8]) throws {
        let early = sample.early[""] ?? []
        let page = min(try leaf(main), early.count / pageBytes)
        main.replaceSubrange(range(page), with: early[range(page)])
    }
}
