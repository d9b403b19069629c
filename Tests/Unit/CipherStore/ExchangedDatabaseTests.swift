import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import Synchronization
import TestKit
import Testing

/// Another member of the group of a shared folder may exchange the database, or have a lease on it, after the checks of an
/// opening and before SQLite opens the file.
@Suite struct ExchangedDatabaseTests {
    /// `F_SETLEASE` and `F_GETLEASE`, which Swift does not import.
    private static let setLease: Int32 = 1024
    private static let getLease: Int32 = 1025

    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// Runs a block on a thread of its own.
    ///
    /// - Returns: What it threw; nil if it returned, or did not end within 12 seconds.
    private func ending(_ release: () -> Void, _ body: @escaping @Sendable () throws -> Void) -> (any Error)? {
        let run = Run(body)
        Thread.detachNewThread { run.run() }
        guard waitUntil(within: .seconds(12), { run.result != nil }) else {
            Issue.record("the opening did not end")
            release()
            _ = waitUntil { run.result != nil }
            return nil
        }
        if case .failure(let error) = run.result { return error }
        return nil
    }

    private final class Run: Sendable {
        private let body: @Sendable () throws -> Void
        private let end = Mutex<Result<Void, any Error>?>(nil)
        init(_ body: @escaping @Sendable () throws -> Void) { self.body = body }

        var result: Result<Void, any Error>? { end.withLock { $0 } }

        func run() {
            let result = Result { try body() }
            end.withLock { $0 = result }
        }
    }

    /// Lets a process that waits for the other end of a pipe go on.
    private func openPipe() { close(open(path, O_RDWR | O_NONBLOCK)) }

    private static func reading(_ path: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        _ = try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_schema") }
    }

    // Story: SQLite opened a pipe for reading, and waited for a writer for ever.
    @Test("a pipe is refused by SQLite's own opening")
    func pipe() throws {
        #expect(mkfifo(path, 0o600) == 0)
        let error = ending(openPipe) { [path] in try Self.reading(path) }
        #expect("\(error as Any)".contains("a device, a pipe or a socket"), "\(error as Any)")
    }

    // Story: the pipe came while the key was derived, after the checks of the opening.
    @Test("a pipe that takes the name of a store while its key is fetched is refused", arguments: [false, true])
    func exchanged(readonly: Bool) throws {
        let path = path
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        let source = KeySource.customRawKey("slow") {
            #expect(rename(path, path + "-away") == 0 && mkfifo(path, 0o600) == 0)
            return try RawKey(bytes: TestKeys.rawKey)
        }
        let error = ending(openPipe) {
            var configuration = Configuration()
            configuration.readonly = readonly
            try SharedStore.open(at: path, unlockedBy: source, configuration: configuration).close()
        }
        #expect(error != nil)
    }

    // Story: the kernel lets an opening wait 45 seconds for a process that has a lease on the file.
    @Test("a lease delays an opening a few seconds only, and is named", arguments: [false, true])
    func lease(readonly: Bool) throws {
        let path = path
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        // Another file that nobody has open.
        try FileManager.default.copyItem(atPath: path, toPath: path + "-copy")
        #expect(rename(path + "-copy", path) == 0)
        // The kernel reports the end of a lease by this signal.
        _ = signal(SIGIO, SIG_IGN)
        let holder = open(path, O_RDWR)
        try #require(fcntl(holder, Self.setLease, F_WRLCK) == 0)
        defer { close(holder) }
        let error = ending({ _ = fcntl(holder, Self.setLease, F_UNLCK) }) {
            var configuration = Configuration()
            configuration.readonly = readonly
            try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: configuration).close()
        }
        #expect((error as? StoreError)?.code == .storeInUse, "\(error as Any)")
        #expect("\(error as Any)".contains("lease"), "\(error as Any)")
        #expect(fcntl(holder, Self.setLease, F_UNLCK) == 0)
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
    }

    @Test("an opening goes on when the lease ends")
    func leaseThatEnds() throws {
        let path = path
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        try FileManager.default.copyItem(atPath: path, toPath: path + "-copy")
        #expect(rename(path + "-copy", path) == 0)
        _ = signal(SIGIO, SIG_IGN)
        let holder = open(path, O_RDWR)
        try #require(fcntl(holder, Self.setLease, F_WRLCK) == 0)
        Thread.detachNewThread {
            // The kernel has asked for the end of the lease.
            _ = waitUntil { fcntl(holder, Self.getLease) != F_WRLCK }
            _ = fcntl(holder, Self.setLease, F_UNLCK)
        }
        let error = ending({}) { try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close() }
        #expect(error == nil, "\(error as Any)")
        close(holder)
    }

    // Story: a database of the user that got the name -shm has whole pages as an index has, and was overwritten.
    @Test("a file of whole pages in the place of -shm is proved by its content")
    func index() throws {
        let path = path
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        try? FileManager.default.removeItem(atPath: path + "-shm")
        var content = Data("SQLite format 3\0".utf8)
        content.count = 32768
        content[20000] = 7
        try content.write(to: URL(fileURLWithPath: path + "-shm"))
        for _ in 0..<3 {
            let error = ending({}) { try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close() }
            #expect((error as? StoreError)?.code == .alreadyExists, "\(error as Any)")
            #expect("\(error as Any)".contains("is not the WAL index"), "\(error as Any)")
        }
        #expect(FileManager.default.contents(atPath: path + "-shm") == content)
        try FileManager.default.removeItem(atPath: path + "-shm")
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
    }
}
