import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreSharing

@Suite("Notices of commits")
struct CommitNoticeTests {
    private let folder = TemporaryFolder()
    private let path: String

    init() throws {
        path = folder.path("app.db-lock")
        _ = try LockFile(path: path, likeFile: nil)
    }

    private func take(isListed: Bool = true) throws -> HolderRow {
        try #require(try HolderRow.take(path: path, label: "test", roles: .writer, isListed: isListed))
    }

    @Test("a commit is noticed by those who watch, not by its own holder and not by others")
    func who() throws {
        let (writer, watcher, other) = (try take(), try take(isListed: false), try take())
        writer.noticeCommit()
        #expect(!writer.table.mayHaveWatchers)
        watcher.beginWatching()
        writer.beginWatching()
        #expect(watcher.isWatching && !other.isWatching && !watcher.isNoticed)
        writer.noticeCommit()
        #expect(watcher.isNoticed && !writer.isNoticed && !other.isNoticed)
        watcher.armNotice()
        #expect(!watcher.isNoticed)
        other.noticeCommit()
        #expect(watcher.isNoticed && writer.isNoticed)
        watcher.endWatching()
        watcher.armNotice()
        writer.noticeCommit()
        #expect(!watcher.isNoticed && !watcher.isWatching)
    }

    @Test("a holder that only watches is not shown, and watchers are found in every word of the table")
    func manyWatchers() throws {
        let writer = try take()
        let watchers = try (0..<70).map { _ in try take(isListed: false) }
        for watcher in watchers { watcher.beginWatching() }
        writer.noticeCommit()
        let unnoticed = watchers.count { !$0.isNoticed }
        #expect(unnoticed == 0)
        #expect(watchers.last?.number == 70)
        let database = folder.path("app.db")
        _ = FileManager.default.createFile(atPath: database, contents: Data())
        #expect(try StoreHolders(of: database).map(\.row) == [0])
    }

    @Test("the next holder of a row watches nothing, and a released row changes nothing of it")
    func nextHolder() throws {
        let (writer, former) = (try take(), try take())
        former.beginWatching()
        former.abandon()
        let next = try take()
        #expect(next.number == former.number && !next.isWatching)
        next.beginWatching()
        writer.noticeCommit()
        former.armNotice()
        #expect(next.isNoticed)
        former.endWatching()
        #expect(next.isWatching)
        next.release()
        #expect(!writer.table.isWatching(next.number))
    }

    /// The watcher slept for ever, or until its time was over: its word said that it had been woken.
    @Test("a sleeper whose waker was killed after it had stored the notice is woken by the next commit")
    func killedWaker() throws {
        let (writer, watcher) = (try take(), try take())
        watcher.beginWatching()
        let isAwake = Flag()
        let sleeper = Mutex<String?>(nil)
        Thread.detachNewThread {
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
            sleeper.withLock { $0 = path }
            while !watcher.isNoticed { _ = watcher.awaitNotice(for: .seconds(600)) }
            isAwake.set()
        }
        #expect(waitUntil { sleeper.withLock { $0 }.map(isAsleep) == true })
        writer.table.words.store32(TableLayout.notice(watcher.number), NoticeWord.noticed)
        #expect(!isAwake.isSet)
        writer.noticeCommit()
        #expect(waitUntil { isAwake.isSet })
        // Once is enough.
        writer.noticeCommit()
        #expect(writer.table.words.load32(TableLayout.notice(watcher.number)) == NoticeWord.woken)
    }

    /// Whether a thread waits in the kernel.
    ///
    /// - Parameter thread: Its folder in `/proc`.
    private func isAsleep(_ thread: String) -> Bool {
        let status = try? String(contentsOfFile: "/proc/\(thread)/stat", encoding: .utf8)
        return status?.contains(") S ") == true
    }

    @Test("a sleeper is woken by a commit, by the end of its watch, and by the time")
    func sleeping() throws {
        let (writer, watcher) = (try take(), try take())
        watcher.beginWatching()
        #expect(watcher.awaitNotice(for: .milliseconds(1)))
        #expect(!watcher.isNoticed)
        for wake in [{ writer.noticeCommit() }, { watcher.endWatching() }] {
            let (isAwake, hasBegun) = (Flag(), Flag())
            watcher.armNotice()
            Thread.detachNewThread {
                hasBegun.set()
                while !watcher.isNoticed { _ = watcher.awaitNotice(for: .seconds(60)) }
                isAwake.set()
            }
            #expect(waitUntil { hasBegun.isSet })
            wake()
            #expect(waitUntil { isAwake.isSet })
        }
    }

    @Test("no commit is lost between a watcher's look and its sleep")
    func noLostNotice() throws {
        let (writer, watcher) = (try take(), try take())
        let commits = Atomic<Int>(0)
        let seen = Atomic<Int>(0)
        let sleeps = Atomic<Int>(0)
        let last = 200_000
        watcher.beginWatching()
        Thread.detachNewThread {
            while true {
                watcher.armNotice()
                let found = commits.load(ordering: .sequentiallyConsistent)
                seen.store(found, ordering: .sequentiallyConsistent)
                if found == last { return }
                while !watcher.isNoticed {
                    sleeps.add(1, ordering: .relaxed)
                    _ = watcher.awaitNotice(for: .seconds(600))
                }
            }
        }
        for number in 1...last {
            commits.store(number, ordering: .sequentiallyConsistent)
            writer.noticeCommit()
            // Now and then the watcher comes to sleep in between.
            if number % 1000 == 0 {
                #expect(waitUntil { seen.load(ordering: .sequentiallyConsistent) == number })
            }
        }
        #expect(waitUntil { seen.load(ordering: .sequentiallyConsistent) == last })
        #expect(sleeps.load(ordering: .relaxed) > 0)
    }

    @Test("whatever the words contain, a commit and a watch just work")
    func garbage() throws {
        let (writer, watcher) = (try take(), try take())
        let file = try FileDescriptor(opening: path, .readWrite)
        let base = Int(LockByte.mappedBase)
        try file.write([UInt8](repeating: 0xff, count: 176), at: base + TableLayout.Header.watchers)
        try file.write([UInt8](repeating: 0x5a, count: 4096), at: base + TableLayout.notices)
        writer.noticeCommit()
        watcher.beginWatching()
        writer.noticeCommit()
        #expect(watcher.isNoticed)
    }
}
