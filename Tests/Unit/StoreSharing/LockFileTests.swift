import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreSharing

@Suite("Lock file")
struct LockFileTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = TemporaryFolder()
        path = folder.path("app.db-lock")
    }

    private func open() throws -> LockFile { try LockFile(path: path, likeFile: nil) }

    // A pipe in the place of the lock file kept `destroy` and those who read from ending.
    @Test("a pipe in the place of the lock file is refused at once, for every access")
    func pipe() throws {
        let path = folder.path("pipe-lock")
        #expect(mkfifo(path, 0o600) == 0)
        defer { unlink(path) }
        for allowsReadOnly in [true, false] {
            let error = #expect(throws: SystemError.self) {
                try LockFile(path: path, likeFile: nil, allowsReadOnly: allowsReadOnly)
            }
            #expect(error?.errorNumber == EINVAL && error?.detail?.contains("regular file") == true)
        }
        #expect(!LockFile.isLibrarys(path))
        for access in [FileDescriptor.Access.readOnly, .readWrite, .writeOnly] {
            #expect(throws: SystemError.self) { _ = try FileDescriptor(opening: path, access, followsLinks: false) }
        }
        #expect(throws: SystemError.self) { try YieldNotifier(path: path) }
        #expect(throws: SystemError.self) { try HolderRow.take(path: path, label: "", roles: .writer) }
    }

    // A reader who may not write the lock file can keep writers from their locks: nothing but another file prevents that.
    @Test("a shared lock of a descriptor that may only read excludes an exclusive one, whose wait ends with an error")
    func reader() throws {
        let file = try open()
        let reader = try FileDescriptor(opening: path, .readOnly, followsLinks: false)
        let isLocked = try reader.tryLock(LockByte.opening.range, .shared)
        #expect(isLocked)
        #expect(try file.tryLock(.opening, .shared) != nil)
        let own = #expect(throws: StoreError.self) {
            try file.lock(.opening, .exclusive, deadline: .now + .milliseconds(20))
        }
        #expect(own?.code == .storeInUse && own?.why.contains("thread of this process") == true, "\(own?.why ?? "")")
        try reader.unlock(LockByte.opening.range)
        #expect(try file.tryLock(.opening, .exclusive) != nil)
        // The system shows processes of other users to root only.
        let unknown = LockFile.timeout(of: .opening, path, isOwnerKnown: false, owner: "Another process or thread")
        #expect(unknown.code == .storeInUse)
        #expect(unknown.why.contains("another user") && unknown.remedy.contains("as root"))
    }

    @Test("exclusive locks exclude everybody, shared ones only exclusive ones, also within one process")
    func kinds() throws {
        let file = try open()
        let exclusive = try #require(try file.tryLock(.opening, .exclusive))
        #expect(try file.tryLock(.opening, .exclusive) == nil)
        #expect(try open().tryLock(.opening, .shared) == nil)
        #expect(try file.isHeld(.opening))
        exclusive.release()
        exclusive.release()
        #expect(try !file.isHeld(.opening))
        let first = try #require(try file.tryLock(.opening, .shared))
        let second = try #require(try file.tryLock(.opening, .shared))
        #expect(try file.tryLock(.opening, .exclusive) == nil)
        #expect(try !file.isHeld(.opening, against: .shared) && file.isHeld(.opening))
        first.release()
        #expect(try file.tryLock(.opening, .exclusive) == nil)
        second.release()
        #expect(try file.tryLock(.opening, .exclusive) != nil)
    }

    @Test("the bytes of a lock file are independent of each other")
    func bytes() throws {
        let file = try open()
        let held = try LockByte.allCases.map { try #require(try file.tryLock($0, .exclusive)) }
        #expect(held.map(\.byte) == LockByte.allCases)
        held[0].release()
        for byte in LockByte.allCases { #expect(try file.isHeld(byte) == (byte != held[0].byte)) }
    }

    @Test("a lock that goes out of sight is free")
    func scope() throws {
        let file = try open()
        do { _ = try file.tryLock(.admin, .exclusive) }
        #expect(try !file.isHeld(.admin))
    }

    @Test("threads of one process exclude each other")
    func threads() async throws {
        let file = try open()
        let crowd = Crowd()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<20 {
                        guard let lock = try? file.lock(.opening, .exclusive) else { continue }
                        crowd.enter()
                        sched_yield()
                        crowd.leave()
                        lock.release()
                    }
                }
            }
        }
        #expect(crowd.most == 1 && crowd.visits == 160)
    }

    @Test("a wait that is not served by its deadline says which lock it was")
    func timeout() throws {
        let file = try open()
        let held = try #require(try file.tryLock(.opening, .exclusive))
        var waits = 0
        let error = #expect(throws: StoreError.self) {
            _ = try file.lock(
                .opening, .exclusive, deadline: .now + .milliseconds(30), onWait: { waits += 1 })
        }
        #expect(error?.code == .storeInUse)
        #expect(error?.why == "Another thread of this process is creating, migrating or opening the store.")
        #expect(waits == 1)
        held.release()
    }

    @Test("a wait ends when it is cancelled")
    func cancellation() throws {
        let file = try open()
        let held = try #require(try file.tryLock(.opening, .exclusive))
        var questions = 0
        #expect(throws: CancellationError.self) {
            _ = try file.lock(
                .opening, .exclusive,
                isCancelled: {
                    questions += 1
                    return questions == 3
                })
        }
        held.release()
    }

    @Test("a lock on a file that was replaced is not taken for a lock")
    func replacedFile() throws {
        let file = try open()
        let old = try #require(try file.tryLock(.opening, .exclusive))
        try FileManager.default.moveItem(atPath: path, toPath: path + ".gone")
        let new = try #require(try file.tryLock(.opening, .exclusive))
        #expect(try file.tryLock(.opening, .exclusive) == nil)
        old.release()
        #expect(try file.tryLock(.opening, .exclusive) == nil)
        new.release()
    }

    @Test("a lock on a file that is replaced between opening and locking is taken again on the new one")
    func replacedInBetween() throws {
        let file = try open()
        var openings = 0
        let lock = try file.tryLock(.opening, .exclusive) {
            openings += 1
            if openings == 1 { rename(path, path + ".gone") }
        }
        #expect(lock != nil && openings == 2)
        #expect(try file.isHeld(.opening))
    }

    @Test("a lock file takes the permissions of the database")
    func mode() throws {
        let database = folder.path("app.db")
        try Data().write(to: URL(fileURLWithPath: database))
        #expect(chmod(database, 0o664) == 0)
        _ = try LockFile(path: path, likeFile: database)
        #expect(try Files.status(of: path)?.permissions == 0o664)
        #expect(try Files.byteCount(path) == 0)
    }

    @Test("a process excludes another, and when it is killed its lock is free")
    func killedHolder() async throws {
        let file = try open()
        let marker = folder.path("holding")
        async let holder: Void = hold(path, marker)
        // Without blocking a thread: there may be too few of them for the other process's start.
        let limit = ContinuousClock.now + .seconds(60)
        while !Files.exists(marker), ContinuousClock.now < limit { await Task.yield() }
        #expect(try file.tryLock(.lease, .exclusive) == nil)
        #expect(try file.tryLock(.opening, .exclusive) != nil)
        let process = try #require(Int32(String(contentsOfFile: marker, encoding: .utf8)))
        #expect(ProcessInspector.isAlive(process))
        #expect(kill(process, SIGKILL) == 0)
        await holder
        let lock = try file.lock(.lease, .exclusive, deadline: .now + .seconds(20))
        lock.release()
    }

    /// Runs a process that takes the shared lease, says so in `marker` and waits to be killed.
    private func hold(_ path: String, _ marker: String) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [path, marker] in
            let file = try LockFile(path: path, likeFile: nil)
            let lock = try file.lock(.lease, .shared)
            try AtomicFile.write(Array("\(ProcessInspector.currentProcess)".utf8), to: marker, likeFile: nil)
            withExtendedLifetime(lock) { _ = waitUntil(within: .seconds(120)) { false } }
        }
    }

    @Test(
        "a lock file that may only be read gives shared locks and no exclusive ones",
        .enabled(if: getuid() == 0, "needs root to become somebody else"))
    func readOnly() async throws {
        _ = try open()
        #expect(chmod(path, 0o644) == 0 && chmod(folder.url.path, 0o755) == 0)
        await #expect(processExitsWith: .success) { [path = path as String] in
            guard setuid(65534) == 0 else { exit(2) }
            let file = try LockFile(path: path, likeFile: nil, allowsReadOnly: true)
            guard try file.tryLock(.lease, .shared) != nil else { exit(3) }
            do {
                _ = try file.tryLock(.lease, .exclusive)
                exit(4)
            } catch let error as SystemError where error.isPermission {}
            do {
                _ = try LockFile(path: path, likeFile: nil)
                exit(5)
            } catch let error as SystemError where error.isPermission {}
            do {
                _ = try LockFile(path: path + "2", likeFile: nil, allowsReadOnly: true)
                exit(6)
            } catch let error as SystemError where error.isPermission {}
        }
    }

    @Test("the document tabulates the bytes that the code locks")
    func document() throws {
        let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Docs/Formats/LockFile.md").standardizedFileURL
        var rows: [String: String] = [:]
        for line in try String(contentsOf: document, encoding: .utf8).split(separator: "\n") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if line.hasPrefix("|"), cells.count >= 3 { rows[cells[1]] = cells[0] }
        }
        for byte in LockByte.allCases { #expect(rows["\(byte)"] == "\(byte.rawValue)") }
        let last = LockByte.rows.upperBound - 1
        #expect(rows["rows"] == "\(LockByte.rows.lowerBound) to \(last)")
        #expect(rows["mapped"] == "from \(LockByte.mappedBase)")
        #expect(last < LockByte.mappedBase)
        #expect(LockByte.allCases.allSatisfy { $0.rawValue < LockByte.rows.lowerBound })
    }
}

/// Counts how many are inside at once.
private final class Crowd: Sendable {
    private let state = Mutex((inside: 0, most: 0, visits: 0))

    var most: Int { state.withLock { $0.most } }
    var visits: Int { state.withLock { $0.visits } }

    func enter() {
        state.withLock {
            $0.inside += 1
            $0.visits += 1
            $0.most = max($0.most, $0.inside)
        }
    }

    func leave() { state.withLock { $0.inside -= 1 } }
}
