import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools
import Synchronization

/// A small store with a random raw key, in a folder of its own among the temporary files: it is attacked in place of the
/// store under test.
final class SampleStore: Sendable {
    /// The files of a store by their suffix, "" for the database.
    typealias Files = [String: [UInt8]]

    static let marker = "CANARY-\(UUID().uuidString)"
    static let suffixes = ["", "-wal", "-sidecar", "-sidecar.bak"]

    /// The path of its folder.
    var folder: String { made.path }
    private let made: MadeFolder
    /// The bytes of the raw key that opens it.
    let rawKey: [UInt8]
    /// The files after the first commits, when all of them are in the database file.
    let early: Files
    /// The files now: newer commits in the database file, and the newest in the WAL.
    let late: Files
    /// The SQL that its connections ran, as a trace shows it with all values.
    let trace: [String]
    /// The files of the store, in which the marker was sought while the store was open, and those that had it.
    let filesWithMarker: [String]

    var source: KeySource { .rawKey(rawKey) }
    var pageBytes: Int { CipherSettings.plaintextHeader.pageBytes }

    /// - Throws: What making files and a store throws.
    init() throws {
        let id = UUID().uuidString
        rawKey = try SystemRandom.bytes(RawKey.byteCount)
        let made = try Self.folders.withLock { folders in
            let made = try MadeFolder("\(Self.parent)/conformance-\(id)")
            folders.append(made)
            return made
        }
        self.made = made
        do {
            let recorder = TraceRecorder()
            // SQLite opens by path: a folder that got the name of this one has no file of this name.
            let name = "sample-\(id).db"
            let path = "\(made.path)/\(name)"
            let store = try SharedStore.open(
                at: path, unlockedBy: .rawKey(rawKey), configuration: recorder.configuration)
            defer { try? store.close() }
            try made.requireOpened(name)
            early = try Self.fill(store, path, from: 1)
            _ = try Self.fill(store, path, from: 2)
            // Temporary tables and sorts are made of content too.
            try store.write { db in
                try db.execute(sql: "CREATE TEMP TABLE sorted AS SELECT text FROM sample ORDER BY text DESC")
            }
            try store.write { try $0.execute(sql: "UPDATE sample SET text = text || 'newest'") }
            late = try Self.read(path)
            filesWithMarker = try Self.filesWithMarker(in: made.path)
            trace = recorder.lines
        } catch {
            Self.remove(made)
            throw error
        }
    }

    func remove() { Self.remove(made) }

    private static func remove(_ made: MadeFolder) {
        made.remove()
        folders.withLock { folders in folders.removeAll { $0 === made } }
    }

    /// The folder of temporary files, in which samples are made.
    static var parent: String {
        let path = FileManager.default.temporaryDirectory.path
        return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    /// The folders of the samples of this process.
    private static let folders = Mutex<[MadeFolder]>([])

    /// Removes all samples, and ends the process.
    static func removeAll(andThen end: () -> Never) -> Never {
        folders.withLock { folders -> Never in
            for folder in folders { folder.remove() }
            end()
        }
    }

    /// Writes rows, of which each page of the table changes, and copies all frames into the database file.
    private static func fill(_ store: SharedStore, _ path: String, from step: Int) throws -> Files {
        try store.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS sample (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
            // Without an index: the rows that it repeats would betray an old page by accident.
            try db.execute(
                sql: """
                    WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 200)
                    INSERT OR REPLACE INTO sample SELECT i, printf('%s %d %d', ?, i, ?) || hex(zeroblob(100)) FROM c
                    """, arguments: [marker, step])
        }
        try store.checkpoint(.truncate)
        return try read(path)
    }

    private static func read(_ path: String) throws -> Files {
        var files: Files = [:]
        for suffix in suffixes where StorePlatform.Files.exists(path + suffix) {
            files[suffix] = try bytes(path + suffix)
        }
        return files
    }

    /// The bytes of a file that SQLite may have open.
    private static func bytes(_ path: String) throws -> [UInt8] {
        // Closing a descriptor of a database, of its -shm or of the lock file would drop locks of this process.
        let file = try RawFile(path)
        return try file.bytes(at: 0, count: file.byteCount)
    }

    private static func filesWithMarker(in folder: String) throws -> [String] {
        try StorePlatform.Files.names(inDirectory: folder).sorted().filter { name in
            try bytes("\(folder)/\(name)").contains(subsequence: Array(marker.utf8))
        }
    }

    // MARK: Attacks

    /// Puts files under a new name, and returns the path of the database.
    func place(_ files: Files) throws -> String {
        let name = UUID().uuidString
        try made.folder.createFolder(name)
        guard let place = try made.folder.folder(name) else {
            throw SystemError.exchanged("openat", "\(made.path)/\(name)")
        }
        for (suffix, bytes) in files { try place.newFile("sample-\(name).db\(suffix)").write(bytes) }
        return "\(place.path)/sample-\(name).db"
    }

    /// The keys of its pages.
    func pageKey() throws -> PageKey {
        let path = try place(late)
        let files = SidecarFiles(databasePath: path)
        let unlocked = try UnlockedKey(source)
        guard let choice = try files.choose(files.read(), unlock: unlocked.unlock) else {
            throw StoreOpening.noSuchStore(path)
        }
        return choice.pageKey
    }
}

/// Keeps the SQL of all connections of a configuration.
private final class TraceRecorder: Sendable {
    private let text = SharedText()

    var lines: [String] { text.lines }

    var configuration: Configuration {
        var configuration = Configuration.ofTool()
        let text = text
        configuration.publicStatementArguments = true
        configuration.prepareDatabase { db in db.trace { text.add($0.expandedDescription) } }
        return configuration
    }
}

extension [UInt8] {
    /// Whether these bytes are in it.
    func contains(subsequence bytes: [UInt8]) -> Bool {
        Data(self).range(of: Data(bytes)) != nil
    }
}

/// Lines that several threads add.
private final class SharedText: Sendable {
    private let state = Mutex<[String]>([])

    var lines: [String] { state.withLock { $0 } }
    func add(_ line: String) { state.withLock { $0.append(line) } }
}
