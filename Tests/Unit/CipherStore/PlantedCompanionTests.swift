import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// Links, folders and pipes with the names of the files beside a store, and second names of those files.
@Suite struct PlantedCompanionTests {
    private static let endings = [
        "-wal", "-shm", "-journal", "-lock", "-notify", "-sidecar", "-sidecar.bak",
    ]

    enum Plant: String, CaseIterable, Sendable { case folder, pipe, link, dangling }

    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func plant(_ plant: Plant, at name: String) throws {
        switch plant {
        case .folder: try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: false)
        case .pipe: #expect(mkfifo(name, 0o600) == 0)
        case .link: #expect(symlink(folder.path("precious"), name) == 0)
        case .dangling: #expect(symlink(folder.path("nothing"), name) == 0)
        }
    }

    private func names() throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path))
    }

    private func open(_ opening: Opening) throws {
        try opening.open(path, .raw(0x2a)) { try $0.write { try $0.execute(sql: "CREATE TABLE t (a)") } }
    }

    // Story: a creation made the lock file and the sidecar, and then met SQLite's refusal of the link at -shm.
    @Test("a creation refuses them before it makes anything, and names the entry", arguments: endings, Plant.allCases)
    func creation(_ ending: String, _ plant: Plant) throws {
        try Data("precious".utf8).write(to: URL(fileURLWithPath: folder.path("precious")))
        try self.plant(plant, at: path + ending)
        let before = try names()
        for opening in [Opening.sharedStore, .pool, .queue] {
            let error = #expect(throws: StoreError.self, "\(opening)") { try open(opening) }
            #expect(error?.code == .alreadyExists, "\(opening): \(error as Any)")
            let isNamed = error.map { "\($0.what) \($0.why)".contains(path + ending) }
            #expect(isNamed == true, "\(opening): \(error as Any)")
            #expect(try names() == before, "\(opening)")
        }
        #expect(FileManager.default.contents(atPath: folder.path("precious")) == Data("precious".utf8))
        #expect(remove(path + ending) == 0)
        try open(.sharedStore)
    }

    @Test(
        "a creation refuses a second name of a file in the place of SQLite's files",
        arguments: ["-wal", "-shm", "-journal"])
    func secondNames(_ ending: String) throws {
        // An empty one too: SQLite writes it.
        try Data().write(to: URL(fileURLWithPath: folder.path("precious")))
        #expect(link(folder.path("precious"), path + ending) == 0)
        let before = try names()
        #expect(storeError { try open(.sharedStore) } == .alreadyExists)
        #expect(try names() == before)
        #expect(FileManager.default.contents(atPath: folder.path("precious")) == Data())
    }

    // Story: the change replaced the link without a word, and the file that it led to kept the former keys.
    @Test("a change of keys refuses a link in the place of a sidecar, and leaves it", arguments: SidecarCopy.allCases)
    func linkedSidecar(_ copy: SidecarCopy) throws {
        let fixture = try KeyslotFixture()
        let files = SidecarFiles(databasePath: fixture.path)
        let (name, kept) = (files.path(of: copy), fixture.folder.path("kept"))
        #expect(rename(name, kept) == 0)
        #expect(symlink(kept, name) == 0)
        let former = FileManager.default.contents(atPath: kept)
        try fixture.withStore { store in
            for change in [
                { _ = try store.keys.add(.passphrase("second"), derivation: TestKeys.cheap) },
                { try store.keys.label(1, "Anna") }, { _ = try store.keys.addRecoveryKey() },
            ] as [() throws -> Void] {
                let error = #expect(throws: StoreError.self) { try change() }
                #expect(error?.code == .alreadyExists && error?.what.contains(name) == true, "\(error as Any)")
            }
            let (target, slots) = try (
                FileManager.default.destinationOfSymbolicLink(atPath: name), store.keys.list()
            )
            #expect(target == kept && slots.count == 1)
            #expect(FileManager.default.contents(atPath: kept) == former)
        }
        // The store opens as before, by the file to which the link leads.
        #expect(try fixture.read(KeyslotFixture.first.source) == "kept")
    }

    @Test("an opening does not replace a dangling link in the place of a sidecar's copy, and reports it")
    func danglingSidecar() throws {
        let fixture = try KeyslotFixture()
        let name = SidecarFiles(databasePath: fixture.path).backupPath
        #expect(remove(name) == 0)
        #expect(symlink(fixture.folder.path("nothing"), name) == 0)
        try fixture.withStore { store in
            #expect(store.notices.contains { $0.contains(name) && $0.contains("link") }, "\(store.notices)")
        }
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: name) == fixture.folder.path("nothing"))
        #expect(!FileManager.default.fileExists(atPath: fixture.folder.path("nothing")))
    }

    @Test("a second name of the database is refused; one of a sidecar keeps its content when the keys change")
    func hardLinks() throws {
        let fixture = try KeyslotFixture()
        let files = SidecarFiles(databasePath: fixture.path)
        #expect(link(fixture.path, fixture.folder.path("second.db")) == 0)
        #expect(storeError { try fixture.read(KeyslotFixture.first.source) } == .hardLinked)
        #expect(remove(fixture.folder.path("second.db")) == 0)
        let kept = fixture.folder.path("kept")
        #expect(link(files.mainPath, kept) == 0)
        let former = FileManager.default.contents(atPath: kept)
        try fixture.add("second")
        #expect(FileManager.default.contents(atPath: kept) == former)
        #expect(FileManager.default.contents(atPath: files.mainPath) != former)
        #expect(try fixture.read(.passphrase("second")) == "kept")
    }

    // Story: in a folder like /tmp another user, who might not even read a plain database, put a WAL of his own beside it:
    // an import took his rows for those of the database, and said that it had compared them.
    @Test(
        "a file of another user in the place of SQLite's files is refused beside a database that he may not write",
        .enabled(if: getuid() == 0), arguments: ["-wal", "-shm", "-journal"])
    func otherUsers(_ ending: String) throws {
        try Opening.pool.open(path, .raw(0x2a)) { try $0.write { try $0.execute(sql: "CREATE TABLE t (a)") } }
        #expect(chmod(path, 0o644) == 0 && chown(path, 1, 1) == 0)
        try? FileManager.default.removeItem(atPath: path + ending)
        try Data().write(to: URL(fileURLWithPath: path + ending))
        #expect(chown(path + ending, 2, 2) == 0)
        for opening in [Opening.sharedStore, .pool, .queue] {
            let error = #expect(throws: (any Error).self, "\(opening)") { try open(opening) }
            #expect("\(error as Any)".contains("belongs to user 2"), "\(opening): \(error as Any)")
        }
        #expect(FileManager.default.contents(atPath: path + ending) == Data())
        // Nor of one that the members of a group may write, to which the user does not belong.
        #expect(chmod(path, 0o660) == 0)
        let error = #expect(throws: (any Error).self) { try open(.sharedStore) }
        #expect("\(error as Any)".contains("belongs to user 2"), "\(error as Any)")
        // A user who may write the database may make them: one who could give the file that group.
        try FileManager.default.removeItem(atPath: path + ending)
        try Data().write(to: URL(fileURLWithPath: path + ending))
        #expect(chown(path + ending, 2, 1) == 0)
        let count = try Opening.pool.open(path, .raw(0x2a)) {
            try $0.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
        }
        #expect(count == 0)
    }

    @Test("no store is made of an empty file of another user", .enabled(if: getuid() == 0))
    func emptyFile() throws {
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(chmod(path, 0o666) == 0 && chown(path, 2, 2) == 0)
        let before = try names()
        for opening in [Opening.sharedStore, .pool, .queue] {
            let error = #expect(throws: StoreError.self, "\(opening)") { try open(opening) }
            #expect(error?.code == .alreadyExists, "\(opening)")
        }
        #expect(try names() == before)
        #expect(chown(path, getuid(), getgid()) == 0)
        try open(.sharedStore)
    }
}
