import CipherStore
import Foundation
import KeyRotation
import StoreCrypto
import TestKit
import Testing

/// A store of Keys/stores, made with some version of SQLCipher and OpenSSL by a process that was killed.
struct VersionedStore: Sendable, CustomTestStringConvertible {
    let folder: URL
    let scheme: KeyScheme

    var name: String { "\(scheme).db" }
    var testDescription: String { "\(folder.lastPathComponent), \(scheme)" }

    static let all: [VersionedStore] = {
        // Tests/Conformance/VersionedStoreTests.swift is three levels below the root.
        let root = (0..<3).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let folders = try? FileManager.default.contentsOfDirectory(
            at: root.appending(path: "Keys/stores"), includingPropertiesForKeys: nil)
        return (folders ?? []).sorted { $0.path < $1.path }
            .flatMap { folder in KeyScheme.allCases.map { VersionedStore(folder: folder, scheme: $0) } }
    }()

    /// - Returns: The path of the copy.
    func copy(to target: TemporaryFolder) throws -> String {
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) where file.hasPrefix(name) {
            try FileManager.default.copyItem(atPath: folder.appending(path: file).path, toPath: target.path(file))
        }
        return target.path(name)
    }
}

/// Debian 12 and 13 have SQLCipher 4.6, Debian's newest 4.19; stores go from one to the other.
@Suite("Stores made with other versions of SQLCipher")
struct VersionedStoreTests {
    private let folder = TemporaryFolder()

    private func marks(_ db: Database) throws -> [String] {
        let count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text <> 'migrated'")
        return count == 12 ? [] : ["\(count ?? 0) of 12 rows"]
    }

    @Test("there is one of each version and scheme")
    func stores() {
        #expect(
            VersionedStore.all.map(\.testDescription) == [
                "sqlcipher-4.19.0, slots", "sqlcipher-4.19.0, direct", "sqlcipher-4.6.1, slots",
                "sqlcipher-4.6.1, direct",
            ])
    }

    @Test(
        "it opens with every commit, the last of which are only in its WAL, is whole, and can be written",
        arguments: VersionedStore.all)
    func opens(store: VersionedStore) throws {
        let path = try store.copy(to: folder)
        #expect(try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int ?? 0 > 4096)
        #expect(StoreProof.problems(path, marks) == [])
        #expect(StoreProof.problems(path, marks) == [])
    }

    @Test("its key can be rotated", arguments: VersionedStore.all)
    func rotates(store: VersionedStore) throws {
        let path = try store.copy(to: folder)
        let key = KeySource.rawKey([UInt8](repeating: 0x5c, count: 32))
        let opened = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        let mode: KeyRotation.Mode = store.scheme == .direct ? .newKey(key) : .newDataKey
        try KeyRotation(opened, options: KeyRotation.Options(mode: mode)).run()
        try? opened.close()
        let again = try SharedStore.open(at: path, unlockedBy: store.scheme == .direct ? key : TestKeys.source("raw"))
        #expect(again.epoch == 2)
        #expect(try again.read(marks) == [])
        try again.close()
    }

    @Test(
        "its passphrase by scrypt opens it everywhere, that by Argon2id where OpenSSL has it; elsewhere the error says so",
        arguments: VersionedStore.all.filter { $0.scheme == .slots })
    func passphrases(store: VersionedStore) throws {
        let path = try store.copy(to: folder)
        let scrypt = try SharedStore.open(at: path, unlockedBy: .passphrase("test only: sesame street"))
        #expect(try scrypt.read(marks) == [])
        // Not `.standard`, which is cheap in a process with CIPHERSTORE_CHEAP_SLOTS.
        let derivations = try scrypt.keys.list().map(\.derivation)
        #expect(derivations == [.hkdf, .scrypt(log2Rounds: 17, lanes: 1), .standardArgon2id])
        try scrypt.close()
        let source = KeySource.passphrase("test only: oil street")
        if KeyDerivation.hasArgon2id {
            let argon2id = try SharedStore.open(at: path, unlockedBy: source)
            #expect(try argon2id.read(marks) == [])
            try argon2id.close()
        } else {
            let error = #expect(throws: StoreError.self) { _ = try SharedStore.open(at: path, unlockedBy: source) }
            #expect(error?.code == .unsupportedLibrary)
        }
    }
}
