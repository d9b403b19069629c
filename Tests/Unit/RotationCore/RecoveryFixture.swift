import CipherStore
import Foundation
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

@testable import KeyCustody

/// The kind of store that is rotated. All keys are raw keys, each of one byte repeated 32 times, so that no key is
/// derived.
enum Rotated: String, CaseIterable, Sendable, Codable {
    /// Slots 1 and 2 have the raw keys 0 and 1.
    case newDataKey
    /// The same slots; only that of the raw key 0 is kept.
    case compromised
    /// The raw key 0 becomes the raw key 7.
    case direct

    /// A raw key that opens the store before the rotation.
    static let present: UInt8 = 0
    /// A raw key that opens it afterwards.
    var next: UInt8 { self == .direct ? 7 : 0 }

    func mode() throws -> RotationMode {
        switch self {
        case .newDataKey: .newDataKey
        case .compromised: .compromised(kept: [try Self.secret(0)])
        case .direct: .direct(try Self.secret(7))
        }
    }

    static func source(_ key: UInt8) -> KeySource { .rawKey([UInt8](repeating: key, count: 32)) }
    static func secret(_ key: UInt8) throws -> Secret { try source(key).read() }
}

/// A store with rows in file and WAL, and a rotation of it up to the step that a test needs.
final class RecoveryFixture {
    static let rows = 400
    let folder = TemporaryFolder()
    let kind: Rotated
    private(set) var keys: RotationKeys?
    private var locks: [HeldLock] = []

    var path: String { folder.path("app.db") }
    var copyPath: String { path + "-rotating" }

    /// - Parameter hasIndex: Whether the wal-index exists, as after a kill, or not, as after a power failure.
    init(_ kind: Rotated, hasIndex: Bool = false) throws {
        self.kind = kind
        for (ending, file) in try Self.files(of: kind) where hasIndex || ending != "-shm" {
            try #require(
                FileManager.default.createFile(
                    atPath: path + ending, contents: file.bytes, attributes: [.posixPermissions: file.mode]))
        }
    }

    /// The files of a store of each kind that was made, by their endings.
    private static let made = Mutex<[Rotated: [String: MadeFile]]>([:])

    private struct MadeFile: Sendable {
        let bytes: Data
        let mode: Int
    }

    private static func files(of kind: Rotated) throws -> [String: MadeFile] {
        if let files = made.withLock({ $0[kind] }) { return files }
        let files = try make(kind)
        made.withLock { $0[kind] = files }
        return files
    }

    private static func make(_ kind: Rotated) throws -> [String: MadeFile] {
        // Copied while it is open, so that commits are in the WAL, as after a kill.
        let (origin, copies) = (TemporaryFolder(), TemporaryFolder())
        var configuration = Configuration()
        configuration.keyScheme = kind == .direct ? .direct : .slots
        let store = try SharedStore.open(
            at: origin.path("app.db"), unlockedBy: Rotated.source(0), configuration: configuration)
        defer { try? store.close() }
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
            for _ in 0..<rows / 2 { try db.execute(sql: "INSERT INTO t (a) VALUES (hex(randomblob(300)))") }
        }
        _ = try store.checkpoint()
        try store.write { db in
            for _ in 0..<rows / 2 { try db.execute(sql: "INSERT INTO t (a) VALUES (hex(randomblob(300)))") }
        }
        // The last commit does not extend the database.
        try store.write { try $0.execute(sql: "UPDATE t SET a = hex(randomblob(300)) WHERE id = 1") }
        if kind != .direct {
            let administration = try KeyAdministration.unlock(
                databasePath: origin.path("app.db"), with: Rotated.secret(0))
            try administration.add(NewSlot(Rotated.source(1).read()))
        }
        var files: [String: MadeFile] = [:]
        for ending in ["", "-wal", "-sidecar", "-sidecar.bak", "-shm"] {
            let process = Process()
            process.executableURL = URL(filePath: "/bin/cp")
            let copy = copies.path("app.db" + ending)
            process.arguments = [origin.path("app.db" + ending), copy]
            try process.run()
            process.waitUntilExit()
            let mode = try FileManager.default.attributesOfItem(atPath: copy)[.posixPermissions] as? Int
            files[ending] = MadeFile(bytes: try Data(contentsOf: URL(filePath: copy)), mode: try #require(mode))
        }
        return files
    }

    // MARK: The steps of a rotation

    func lock() throws {
        let file = try LockFile(path: path + "-lock", likeFile: path)
        for byte in [LockByte.opening, .admin] { locks.append(try #require(try file.tryLock(byte, .exclusive))) }
    }

    /// Releases the locks, as the kernel does when the rotation's process dies.
    func die() {
        for lock in locks { lock.release() }
        locks = []
    }

    func journal() throws -> RotationJournal {
        let secret = try Rotated.secret(0)
        return RotationJournal(databasePath: path) { [keys] claimed in
            if let keys { return claimed.epoch < keys.nextEpoch ? keys.current : keys.next }
            return try secret.unlock(claimed)
        }
    }

    /// State `rotating`; the locks are free again.
    @discardableResult
    func begin() throws -> Self {
        try lock()
        defer { die() }
        keys = try journal().begin(kind.mode())
        return self
    }

    /// The pages of the store under the next key.
    func copy() throws -> [[UInt8]] {
        let keys = try #require(keys)
        var old = try keys.currentDataKey.withSecret {
            try PageCodec(dataKey: $0, salt: keys.currentSalt.bytes, settings: keys.settings)
        }
        var new = try keys.nextDataKey.withSecret {
            try PageCodec(dataKey: $0, salt: keys.nextSalt.bytes, settings: keys.settings)
        }
        return try FoldedFiles.fold(path).enumerated().map { index, page in
            var plain = page
            var sealed = page
            try page.withUnsafeBytes { page in
                try plain.withUnsafeMutableBytes { try old.decrypt(page, number: UInt32(index + 1), into: $0) }
            }
            try plain.withUnsafeBytes { plain in
                try sealed.withUnsafeMutableBytes { try new.encrypt(plain, number: UInt32(index + 1), into: $0) }
            }
            return sealed
        }
    }

    /// State `switching` with the complete copy; the locks are free again.
    @discardableResult
    func announceSwitch() throws -> Self {
        try begin()
        let pages = try copy()
        try write(pages)
        try lock()
        defer { die() }
        try journal().announceSwitch(pages: UInt32(pages.count))
        return self
    }

    func write(_ pages: [[UInt8]]) throws { try Data(pages.joined()).write(to: URL(filePath: copyPath)) }

    enum BadCopy: String, CaseIterable, Sendable {
        case absent, truncated, long, damagedPage, otherKey, empty, link, folder
    }

    /// Removes the complete copy, or replaces it by something else.
    func spoil(_ bad: BadCopy, _ whole: [[UInt8]]) throws {
        var pages = whole
        let elsewhere = folder.path("elsewhere")
        try FileManager.default.removeItem(atPath: copyPath)
        switch bad {
        case .absent: break
        case .truncated: try write(Array(pages.dropLast()))
        case .long: try write(pages + [pages[1]])
        case .damagedPage:
            pages[2][100] ^= 1
            try write(pages)
        case .otherKey: try write(FoldedFiles.fold(path))
        case .empty: try write([])
        case .link:
            try Data(pages.joined()).write(to: URL(filePath: elsewhere))
            try FileManager.default.createSymbolicLink(atPath: copyPath, withDestinationPath: elsewhere)
        case .folder:
            try FileManager.default.createDirectory(atPath: copyPath, withIntermediateDirectories: false)
        }
    }

    /// The switch up to the rename, which is durable.
    func rename() throws {
        try Data().write(to: URL(filePath: path + "-wal"))
        try AtomicFile.move(copyPath, to: path)
    }

    // MARK: Checks

    func open(_ key: UInt8) throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: Rotated.source(key))
    }

    /// Opens the store with a key and verifies all of it.
    ///
    /// - Returns: The epoch and the notices.
    @discardableResult
    func check(_ key: UInt8) throws -> (epoch: UInt64?, notices: [String]) {
        let store = try open(key)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == Self.rows)
        #expect(try store.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        try store.write { try $0.execute(sql: "CREATE TABLE proof (a); DROP TABLE proof") }
        let notices = store.notices
        try store.close()
        let copies = SidecarFiles(databasePath: path).read()
        #expect(copies.main.parsed?.bytes == copies.backup.parsed?.bytes)
        #expect(copies.main.parsed?.claimed.state == .ready)
        return (copies.main.parsed?.claimed.epoch, notices)
    }

    /// Expects that the store has its next key, and opens with that key and no other.
    func checkRotated() throws {
        #expect(try check(kind.next).epoch == 2)
        #expect(!Files.exists(copyPath))
        if kind == .compromised { #expect(code { _ = try open(1) } == .wrongKey) }
        if kind == .newDataKey { #expect(try check(1).epoch == 2) }
        if kind == .direct { #expect(code { _ = try open(0) } == .wrongKey) }
    }

    /// Expects that the store has its present key, and that every key opens it.
    func checkUndone() throws {
        #expect(try check(0).epoch == 1)
        #expect(!Files.exists(copyPath))
        if kind != .direct { #expect(try check(1).epoch == 1) }
    }

    func state() -> Sidecar.State? { SidecarFiles(databasePath: path).read().main.parsed?.claimed.state }

    /// The text of an error.
    func text(_ body: () throws -> Void) -> String {
        do {
            try body()
            return ""
        } catch {
            return "\(error)"
        }
    }

    func code(_ body: () throws -> Void) -> StoreError.Code? {
        do {
            try body()
            return nil
        } catch let error as StoreError {
            return error.code
        } catch {
            Issue.record("\(error)")
            return nil
        }
    }
}
