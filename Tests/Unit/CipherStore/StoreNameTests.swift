import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// The names and paths that a new store may have.
@Suite("Names of stores")
struct StoreNameTests {
    private let folder = TemporaryFolder()

    private func names() throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path))
    }

    private func make(_ path: String) throws {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
    }

    // `cipherctl create` refused the name, a program did not; the other store removed the file later.
    @Test(
        "a name that belongs to another store is refused, and nothing is made",
        arguments: [
            "-journal", "-wal", "-shm", "-rotating", "-restoring", "-destroying", "-notify", "-lock", "-keylog",
            "-sidecar", "-sidecar.bak", "-sidecar.damaged", "-replaced-1", ".partial-1-2", ".importing-1-2",
        ])
    func namesOfOthers(suffix: String) throws {
        try make(folder.path("s.db"))
        let before = try names()
        let name = folder.path("s.db" + suffix)
        // Those of the store itself exist, and are no stores.
        let code: StoreError.Code = .storeName
        let shared = #expect(throws: StoreError.self) { try make(name) }
        #expect(shared?.code == code, "\(String(describing: shared))")
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.usePassphrase("a long passphrase") }
        if !FileManager.default.fileExists(atPath: name) {
            let pool = #expect(throws: StoreError.self) { try DatabasePool(path: name, configuration: configuration) }
            #expect(pool?.code == code, "\(String(describing: pool))")
            let queue = #expect(throws: StoreError.self) { try DatabaseQueue(path: name, configuration: configuration) }
            #expect(queue?.code == code, "\(String(describing: queue))")
        }
        #expect(try names() == before)
    }

    @Test(
        "a store is not made if a store beside it has the name of one of its files",
        arguments: ["-rotating", "-journal", "-destroying", "-replaced-1", ".partial-1-2"])
    func reverse(suffix: String) throws {
        try make(folder.path("s.db" + suffix))
        let before = try names()
        let error = #expect(throws: StoreError.self) { try make(folder.path("s.db")) }
        #expect(error?.code == .storeName && error?.why.contains("s.db\(suffix)") == true)
        #expect(try names() == before)
        try make(folder.path("s.db-2"))
        // An existing file is opened under its name: its rows are reached under no other.
        try make(folder.path("s.db" + suffix))
    }

    // SQLite said "unable to open database file", and an empty file and a lock file stayed.
    @Test(
        "a path that is too long for SQLite is refused with the limit, and nothing is made",
        arguments: [504, 505, 600])
    func longPath(count: Int) throws {
        var deep = try Files.resolvingLinks(of: folder.url.path)
        while deep.utf8.count < count - 150 {
            deep += "/" + String(repeating: "d", count: 50)
            try Files.makeDirectory(deep)
        }
        let path = deep + "/" + String(repeating: "f", count: count - deep.utf8.count - 1)
        guard count > 504 else { return try make(path) }
        let error = #expect(throws: StoreError.self) { try make(path) }
        #expect(error?.code == .pathTooLong && error?.why.contains("504") == true)
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.usePassphrase("a long passphrase") }
        let pool = #expect(throws: StoreError.self) { try DatabasePool(path: path, configuration: configuration) }
        #expect(pool?.code == .pathTooLong)
        #expect(try FileManager.default.contentsOfDirectory(atPath: deep) == [])
        // So is a link to it.
        try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: path)
        let linked = #expect(throws: StoreError.self) { try make(folder.path("link")) }
        #expect(linked?.code == .pathTooLong)
        #expect(try FileManager.default.contentsOfDirectory(atPath: deep) == [])
    }
}
