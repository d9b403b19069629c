import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreSharing

@Suite("Live files")
struct LiveFilesTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = TemporaryFolder()
        path = folder.path("app.db")
        try Data("0123456789".utf8).write(to: URL(fileURLWithPath: path))
    }

    /// Locks a byte as SQLite does: for the whole process.
    private func lockAsSQLite(_ descriptor: Int32) -> Bool {
        var lock = flock()
        lock.l_type = Int16(F_RDLCK)
        lock.l_start = off_t(SQLiteLockByte.reserved) + 1
        lock.l_len = 510
        return fcntl(descriptor, F_SETLK, &lock) == 0
    }

    @Test("a file has one descriptor, whatever name it is asked for by")
    func oneDescriptor() throws {
        let other = folder.path("other.db")
        try FileManager.default.createSymbolicLink(atPath: other, withDestinationPath: path)
        let first = try LiveFiles.descriptor(of: path)
        #expect(try LiveFiles.descriptor(of: path) === first)
        #expect(try LiveFiles.descriptor(of: other) === first)
        let before = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        #expect(before.filter { $0 == path }.count == 1)
    }

    @Test("reading stops at the end of the file")
    func reading() throws {
        let file = try LiveFiles.descriptor(of: path)
        var bytes = [UInt8](repeating: 0, count: 8)
        let count = try bytes.withUnsafeMutableBytes { try file.read(at: 6, into: $0) }
        #expect(count == 4 && bytes.starts(with: Array("6789".utf8)))
        #expect(try file.status().byteCount == 10)
    }

    // Closing any descriptor of a file drops all locks that the process has on it.
    @Test("a descriptor that goes out of use leaves the process's locks on the file alone")
    func locksStay() throws {
        let connection = open(path, O_RDWR | O_CLOEXEC)
        defer { close(connection) }
        #expect(lockAsSQLite(connection))
        for _ in 0..<3 { _ = try LiveFiles.descriptor(of: path) }
        let file = try LiveFiles.descriptor(of: path)
        #expect(try !file.tryLockSQLiteBytes())
        file.giveUp()
        LiveFiles.closeRemovedFiles()
        // Asked by another open file, as another process would ask.
        let other = try FileDescriptor(opening: "/proc/self/fd/\(connection)", .readWrite)
        #expect(try !other.tryLock(SQLiteLockByte.all, .exclusive))
    }

    @Test("SQLite's bytes are had once, also by threads of one process, and not while a connection is open")
    func bytes() throws {
        let file = try LiveFiles.descriptor(of: path)
        #expect(try file.tryLockSQLiteBytes())
        #expect(try !file.tryLockSQLiteBytes())
        try file.unlockSQLiteBytes()
        try file.unlockSQLiteBytes()
        #expect(try file.tryLockSQLiteBytes())
        file.giveUp()
        var byte: [UInt8] = [0]
        #expect(throws: SystemError.self) { try byte.withUnsafeMutableBytes { try file.read(at: 0, into: $0) } }
        #expect(try LiveFiles.descriptor(of: path) !== file)
    }

    @Test("a file that was replaced is closed once nothing uses it, and its room is free again")
    func replaced() throws {
        let file = try LiveFiles.descriptor(of: path)
        try Data("new".utf8).write(to: URL(fileURLWithPath: folder.path("new.db")))
        #expect(rename(folder.path("new.db"), path) == 0)
        let next = try LiveFiles.descriptor(of: path)
        #expect(next !== file && next.identity != file.identity)
        #expect(throws: SystemError.self) { try file.status().byteCount }
        #expect(try next.status().byteCount == 3)
    }

    // The process that replaces a database has it locked, and admits the others before it unlocks it.
    @Test("a file that was replaced and is still locked is closed soon after it is unlocked")
    func replacedAndLocked() throws {
        let file = try LiveFiles.descriptor(of: path)
        let other = try FileDescriptor(opening: path, .readWrite)
        #expect(try other.tryLock(SQLiteLockByte.all, .exclusive))
        try FileManager.default.removeItem(atPath: path)
        LiveFiles.closeRemovedFiles()
        #expect(try file.status().byteCount == 10)
        try other.unlock(SQLiteLockByte.all)
        #expect(waitUntil(within: .seconds(10)) { (try? file.status().byteCount) == nil })
    }

    @Test("of a file that was replaced the first page is written over when its bytes are locked; the rest stays")
    func invalidating() throws {
        try Data(repeating: 7, count: 70_000).write(to: URL(fileURLWithPath: path))
        let file = try LiveFiles.descriptor(of: path)
        let other = open(path, O_RDONLY | O_CLOEXEC)
        func content() throws -> [UInt8] {
            try FileDescriptor(opening: "/proc/self/fd/\(other)", .readOnly).read(at: 0, byteCount: 80_000)
        }
        #expect(try file.tryLockSQLiteBytes())
        // It has its name: it is the database.
        try file.invalidateFirstPage()
        #expect(try content() == [UInt8](repeating: 7, count: 70_000))
        try Data("new".utf8).write(to: URL(fileURLWithPath: folder.path("new.db")))
        #expect(rename(folder.path("new.db"), path) == 0)
        try file.unlockSQLiteBytes()
        try file.invalidateFirstPage()
        #expect(try content() == [UInt8](repeating: 7, count: 70_000))
        #expect(try file.tryLockSQLiteBytes())
        try file.invalidateFirstPage()
        #expect(
            try content() == [UInt8](repeating: 0xff, count: 65_536) + [UInt8](repeating: 7, count: 70_000 - 65_536))
        file.giveUp()
        close(other)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("new".utf8))
    }

    @Test("a file that is only looked at is not open for writing; one whose bytes were locked is")
    func access() throws {
        func isForWriting() -> Set<Bool?> {
            Set(ProcessInspector.openings(of: path).map(\.isForWriting))
        }
        let file = try LiveFiles.descriptor(of: path)
        #expect(isForWriting() == [false])
        #expect(try file.tryLockSQLiteBytes())
        #expect(isForWriting() == [false, true])
        file.giveUp()
        #expect(isForWriting().isEmpty)
    }

    @Test("what is not a regular file, or is not there, is refused without being opened")
    func refused() throws {
        #expect(mkfifo(folder.path("pipe"), 0o600) == 0)
        for name in ["pipe", "none", "."] {
            #expect(throws: SystemError.self) { try LiveFiles.descriptor(of: folder.path(name)) }
        }
    }
}
