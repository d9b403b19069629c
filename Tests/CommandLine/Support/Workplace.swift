import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

/// A folder with a raw key in it, and cipherctl to work there. Raw keys cost no derivation.
struct Workplace {
    let folder = TemporaryFolder()
    let key: String

    static let passphrase = "correct horse battery"

    init() throws {
        key = folder.path("raw.key")
        try Self.write([UInt8](repeating: 0x2a, count: 32), to: key)
    }

    func path(_ name: String) -> String { folder.path(name) }

    // MARK: Running

    static func program() throws -> URL { try BuiltProducts.executable("cipherctl") }

    /// Runs cipherctl with exactly these arguments.
    func run(
        _ arguments: [String], input: String? = nil, environment: [String: String] = [:]
    ) throws -> CommandRun.Outcome {
        try CommandRun(
            Self.program(), arguments, input: input, environment: environment, directory: folder.url.path
        ).finish()
    }

    /// Runs cipherctl with the raw key.
    @discardableResult
    func ctl(_ arguments: String..., key: String? = nil, input: String? = nil) throws -> CommandRun.Outcome {
        try run(arguments + ["--raw-key-file", key ?? self.key], input: input)
    }

    // MARK: Files

    static func write(_ bytes: [UInt8], to path: String, mode: Int = 0o600) throws {
        try #require(
            FileManager.default.createFile(
                atPath: path, contents: Data(bytes), attributes: [.posixPermissions: mode]))
    }

    func write(_ text: String, to name: String, mode: Int = 0o600) throws {
        try Self.write(Array(text.utf8), to: path(name), mode: mode)
    }

    /// The bytes of a file that nobody in this process has open.
    func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.url.appendingPathComponent(name)))
    }

    /// Overwrites bytes of a file in place.
    func poke(_ name: String, at offset: Int, _ bytes: [UInt8]) throws {
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent(name))
        defer { try? file.close() }
        try file.seek(toOffset: UInt64(offset))
        try file.write(contentsOf: bytes)
    }

    /// Changes one bit of the byte at `offset` of a file, so that it surely differs.
    func flip(_ name: String, at offset: Int) throws {
        try poke(name, at: offset, [try bytes(name)[offset] ^ 1])
    }

    func truncate(_ name: String, to count: Int) throws {
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent(name))
        defer { try? file.close() }
        try file.truncate(atOffset: UInt64(count))
    }

    func remove(_ names: String...) throws {
        for name in names { try FileManager.default.removeItem(atPath: path(name)) }
    }

    func copy(_ name: String, to newName: String) throws {
        if exists(newName) { try remove(newName) }
        try FileManager.default.copyItem(atPath: path(name), toPath: path(newName))
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    func names() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path)) }

    /// The content of a key log, by the names of its events.
    func events(_ store: String = "s.db") throws -> [String] {
        let log = try run(["key", "log", path(store), "--json"])
        return (log.json["entries"] as? [[String: Any]] ?? []).compactMap { $0["event"] as? String }
    }

    // MARK: Databases

    /// The files of a store, its lock file among them.
    struct StoreFile: Sendable {
        let name: String
        let bytes: [UInt8]
        let mode: Int
    }

    func files(of store: String) throws -> [StoreFile] {
        try names().filter { $0.hasPrefix(store) }.map { name in
            let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
            return StoreFile(name: name, bytes: try bytes(name), mode: attributes[.posixPermissions] as? Int ?? 0o600)
        }
    }

    /// Writes the files of a store, in the place of those that are there.
    func put(_ files: [StoreFile]) throws {
        for file in files {
            if exists(file.name) { try remove(file.name) }
            try Self.write(file.bytes, to: path(file.name), mode: file.mode)
        }
    }

    /// The content of folders that suites begin with, by names. The content of a folder is nil.
    private static let contents = Mutex<[String: [(path: String, bytes: [UInt8]?, mode: Int)]]>([:])

    /// Fills this folder: the first time by making something in it, and each later time with copies of that.
    ///
    /// - Parameter name: Of the content, one for all tests.
    func fill(_ name: String, _ make: () throws -> Void) throws {
        if let content = Self.contents.withLock({ $0[name] }) {
            for (name, bytes, mode) in content {
                if let bytes {
                    try Self.write(bytes, to: path(name), mode: mode)
                } else {
                    try FileManager.default.createDirectory(
                        atPath: path(name), withIntermediateDirectories: false, attributes: [.posixPermissions: mode])
                }
            }
            return
        }
        try make()
        let made = try FileManager.default.subpathsOfDirectory(atPath: folder.url.path).filter { $0 != "raw.key" }
        let content = try made.sorted().map { name in
            let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
            let isFolder = attributes[.type] as? FileAttributeType == .typeDirectory
            let mode = attributes[.posixPermissions] as? Int ?? 0o600
            return (path: name, bytes: isFolder ? nil : try bytes(name), mode: mode)
        }
        Self.contents.withLock { $0[name] = content }
    }

    /// The store that most tests begin with. It is made once, and copied.
    private static let store = Result {
        let place = try Workplace()
        try place.makeNewStore("s.db", key: nil, mode: "0600")
        return try place.files(of: "s.db")
    }

    /// Makes a store of about 100 pages. One of the usual name has always the same store ID, keys and rows.
    func makeStore(_ name: String = "s.db", key: String? = nil, mode: String = "0600") throws {
        guard name == "s.db", key == nil, mode == "0600", try names().allSatisfy({ !$0.hasPrefix(name) }) else {
            return try makeNewStore(name, key: key, mode: mode)
        }
        try put(Self.store.get())
    }

    /// Makes the store of the usual name and a backup of it in the folder `b`, with the same IDs, keys and rows always.
    func makeBackup() throws {
        try fill("backup") {
            try makeStore()
            let made = try ctl("backup", path("s.db"), path("b"))
            try #require(made.status == 0, "\(made.errors)")
        }
    }

    private func makeNewStore(_ name: String, key: String?, mode: String) throws {
        let created = try ctl("create", path(name), "--mode", mode, key: key)
        try #require(created.status == 0, "\(created.errors)")
        let filled = try ctl(
            "sql", path(name),
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
            INSERT INTO t SELECT i, printf('row %d %s', i, hex(randomblob(50))) FROM c;
            """, "--write", key: key)
        try #require(filled.status == 0, "\(filled.errors)")
    }

    /// Makes a plain database; it is closed again.
    func makePlain(_ sql: String, as name: String = "plain.db") throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: path(name), configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// A file of the repository's test material.
    static func fixture(_ name: String) -> String {
        repositoryRoot.appendingPathComponent("Keys/fixtures/\(name)").path
    }

    static var repositoryRoot: URL {
        (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
    }
}
