import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// A store with key slots. It is created with a raw key, which costs no derivation, and its passphrases get the cheapest
/// scrypt.
final class KeyslotFixture {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    /// The creator of the store: slot 1.
    static let first = TestKey.raw(0x2a)

    init() throws {
        let store = try SharedStore.open(at: path, unlockedBy: Self.first.source)
        try store.write { try $0.execute(sql: "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('kept')") }
        try store.close()
    }

    /// Opens the store with the first key and hands it to `body`.
    @discardableResult
    func withStore<T>(_ key: TestKey = first, _ body: (SharedStore) throws -> T) throws -> T {
        let store = try SharedStore.open(at: path, unlockedBy: key.source)
        defer { try? store.close() }
        return try body(store)
    }

    /// Adds a slot for a passphrase.
    @discardableResult
    func add(_ passphrase: String, label: String = "") throws -> StoreKeys.Slot {
        try withStore { try $0.keys.add(.passphrase(passphrase), label: label, derivation: TestKeys.cheap) }
    }

    /// Opens in one way and reads the content.
    func read(_ opening: Opening, _ key: TestKey) throws -> String? {
        try opening.open(path, key) { try $0.read { try String.fetchOne($0, sql: "SELECT text FROM note") } }
    }

    /// Opens as a shared store and reads the content.
    func read(_ source: KeySource) throws -> String? {
        let store = try SharedStore.open(at: path, unlockedBy: source)
        defer { try? store.close() }
        return try store.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
    }

    /// The sidecar as it claims to be.
    func sidecar() throws -> Sidecar {
        try #require(SidecarFiles(databasePath: path).read().main.parsed?.claimed)
    }

    func contents(_ ending: String) -> Data? { FileManager.default.contents(atPath: path + ending) }

    /// The files beside the store from which a key makes the keys of the store, as an attacker would try them: each
    /// file that reads as a sidecar, alone in a folder.
    func filesOpened(by key: TestKey) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted().filter { name in
            let trial = TemporaryFolder()
            let files = SidecarFiles(databasePath: trial.path("app.db"))
            try FileManager.default.copyItem(atPath: folder.path(name), toPath: files.mainPath)
            let choice = try? files.choose(files.read()) { try key.source.read().unlock($0) }
            return choice != nil
        }
    }
}
