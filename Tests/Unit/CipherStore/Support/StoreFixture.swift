import CipherStore
import Foundation
import TestKit
import Testing

/// A key as a test gives it to each way of opening.
enum TestKey: Sendable, CustomTestStringConvertible {
    /// 32 times this byte; costs no derivation.
    case raw(UInt8)
    case passphrase(String)

    var source: KeySource {
        switch self {
        case .raw(let byte): .rawKey([UInt8](repeating: byte, count: 32))
        case .passphrase(let text): .passphrase(text)
        }
    }

    func use(on db: Database) throws {
        switch self {
        case .raw(let byte): try db.useRawKey(Data(repeating: byte, count: 32))
        case .passphrase(let text): try db.usePassphrase(text)
        }
    }

    var testDescription: String {
        switch self {
        case .raw(let byte): "raw key \(byte)"
        case .passphrase(let text): "passphrase \(text)"
        }
    }
}

/// The ways in which a program opens a store.
enum Opening: String, CaseIterable, Sendable {
    case sharedStore
    /// `DatabasePool` with `config.prepareDatabase { ... }`.
    case pool
    /// `DatabasePool` with `config.prepareDatabase = { ... }`.
    case poolAssigned
    case queue
    case queueAssigned

    /// Opens a store, hands it to `body` and closes it.
    func open<T>(
        _ path: String, _ key: TestKey, _ config: Configuration = Configuration(),
        body: (any DatabaseWriter) throws -> T
    ) throws -> T {
        var config = config
        let hook: @Sendable (Database) throws -> Void = { db in
            try key.use(on: db)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        switch self {
        case .sharedStore: break
        case .pool, .queue: config.prepareDatabase(hook)
        case .poolAssigned, .queueAssigned: config.prepareDatabase = hook
        }
        let writer: any DatabaseWriter =
            switch self {
            case .sharedStore: try SharedStore.open(at: path, unlockedBy: key.source, configuration: config)
            case .pool, .poolAssigned: try DatabasePool(path: path, configuration: config)
            case .queue, .queueAssigned: try DatabaseQueue(path: path, configuration: config)
            }
        defer { try? writer.close() }
        return try body(writer)
    }
}

/// A store with known content, which a test damages, and what it expects of every way to open it.
final class StoreFixture {
    static let rowCount = 300
    /// The files that SQLite makes to read a store at all; neither holds content of it.
    static let sharingFiles: Set = ["app.db-wal", "app.db-shm"]
    let folder = TemporaryFolder()
    let key: TestKey
    var path: String { folder.path("app.db") }
    var sidecar: String { path + "-sidecar" }
    var backup: String { path + "-sidecar.bak" }

    /// Makes a store of some 30 pages and closes it, its log emptied into it.
    init(key: TestKey = .raw(0x2a)) throws {
        self.key = key
        try Self.fill(path, key)
    }

    static func fill(_ path: String, _ key: TestKey) throws {
        try Opening.pool.open(path, key) { writer in
            try writer.write { db in
                try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
                for index in 1...rowCount {
                    try db.execute(
                        sql: "INSERT INTO note (text) VALUES (?)",
                        arguments: ["note \(index) " + String(repeating: "x", count: 300)])
                }
            }
        }
    }

    /// Opens and reads all rows.
    func count(_ opening: Opening, _ key: TestKey? = nil) throws -> Int {
        try opening.open(path, key ?? self.key) { writer in
            try writer.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note WHERE text LIKE 'note%'") ?? 0 }
        }
    }

    // MARK: Damaging

    func bytes(_ name: String? = nil) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: name ?? path)) }

    /// Writes a file in place, so that links and modes stay.
    func write(_ bytes: Data, to name: String? = nil) throws {
        try bytes.write(to: URL(fileURLWithPath: name ?? path))
    }

    /// Changes the database file, runs `body`, and puts the file back.
    func withDatabase(changed change: (inout Data) -> Void, _ body: () throws -> Void) throws {
        let whole = try bytes()
        var changed = whole
        change(&changed)
        try write(changed)
        try body()
        let afterwards = try bytes()
        #expect(afterwards == changed, "the damaged file was written to")
        try write(whole)
    }

    // MARK: Expecting

    /// Opens in every way and expects an error of this kind, with no file changed.
    ///
    /// - Parameters:
    ///   - mentions: What the text of the error must say.
    ///   - files: Files that may appear or change nevertheless; the lock file always may.
    func expectRefusal(
        _ code: StoreError.Code, with key: TestKey? = nil, mentions: [String] = [], changing files: Set<String> = [],
        ways: [Opening] = Opening.allCases, at location: SourceLocation = #_sourceLocation
    ) {
        for way in ways {
            let before = FolderSnapshot(of: folder)
            let error = #expect(throws: (any Error).self, "\(way)", sourceLocation: location) {
                try count(way, key)
            }
            let after = FolderSnapshot(of: folder)
            let changes = Set(before.changes(until: after)).subtracting(files).subtracting(["app.db-lock"])
            #expect(changes.isEmpty, "\(way) changed files", sourceLocation: location)
            #expect(after.isEmptyOrAbsent("app.db-wal"), "\(way) wrote a log", sourceLocation: location)
            guard let error = error as? StoreError else {
                Issue.record("\(way) gave \(String(describing: error))", sourceLocation: location)
                continue
            }
            #expect(error.code == code, "\(way): \(error)", sourceLocation: location)
            #expect(
                !error.what.isEmpty && !error.why.isEmpty && !error.remedy.isEmpty, "\(way)", sourceLocation: location)
            for text in [path] + mentions {
                #expect(error.description.contains(text), "\(way): \(error)", sourceLocation: location)
            }
            Spoken.say(way, error)
        }
    }

    /// Opens in every way and expects the content to be whole.
    func expectWhole(ways: [Opening] = Opening.allCases, at location: SourceLocation = #_sourceLocation) {
        for way in ways {
            do {
                let found = try count(way)
                #expect(found == Self.rowCount, "\(way)", sourceLocation: location)
            } catch {
                Issue.record("\(way) gave \(error)", sourceLocation: location)
            }
        }
    }
}

/// Prints every refusal once when CIPHERSTORE_SHOW_ERRORS is set, for those who want to read what users will read.
enum Spoken {
    static func say(_ way: Opening, _ error: StoreError) {
        guard ProcessInfo.processInfo.environment["CIPHERSTORE_SHOW_ERRORS"] != nil else { return }
        print("[\(way)] \(error)")
    }
}
