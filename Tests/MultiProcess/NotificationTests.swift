import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// Notifications between processes.
@Suite(.serialized) struct NotificationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private final class Count: Sendable {
        private let count = Atomic<Int>(0)
        func add() { count.add(1, ordering: .sequentiallyConsistent) }
        var value: Int { count.load(ordering: .sequentiallyConsistent) }
    }

    @Test("a post reaches the observers of its name in every process, without a store and without a key")
    func delivery() throws {
        let other = try ActorProcess()
        // Nobody observes yet: nothing happens, and no file appears.
        #expect(other.ask("post \(path) news") == "ok")
        #expect(!FileManager.default.fileExists(atPath: path + "-notify"))
        let (news, rest) = (Count(), Count())
        let observation = try CrossProcessNotification.observe(name: "news", in: path) { news.add() }
        let second = try CrossProcessNotification.observe(name: "else", in: path) { rest.add() }
        #expect(other.ask("observe-posts \(path) news") == "ok")
        for number in 1...10 {
            #expect(other.ask("post \(path) news") == "ok")
            #expect(waitUntil { news.value == number })
            #expect(waitUntil { other.ask("posts") == "ok \(number)" })
        }
        try CrossProcessNotification.post(name: "news", in: URL(fileURLWithPath: path))
        #expect(waitUntil { news.value == 11 })
        #expect(waitUntil { other.ask("posts") == "ok 11" })
        #expect(rest.value == 0)
        observation.cancel()
        try CrossProcessNotification.post(name: "news", in: path)
        #expect(waitUntil { other.ask("posts") == "ok 12" })
        #expect(news.value == 11)
        withExtendedLifetime(second) {}
    }

    @Test("posts that come while an observer is busy are one notification")
    func coalescing() throws {
        let other = try ActorProcess()
        let count = Count()
        let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let observation = try CrossProcessNotification.observe(name: "x", in: path) {
            count.add()
            hasBegun.signal()
            mayEnd.wait()
        }
        #expect(other.ask("post \(path) x") == "ok")
        hasBegun.wait()
        for _ in 0..<100 { #expect(other.ask("post \(path) x") == "ok") }
        mayEnd.signal()
        hasBegun.wait()
        mayEnd.signal()
        #expect(count.value == 2)
        observation.cancel()
    }

    /// Each call went through two wrappers more than the one before, until the stack was full.
    @Test("the call of a notification is not wrapped once more by each notification")
    func manyCalls() throws {
        let places = Mutex<[Int]>([])
        let observation = try CrossProcessNotification.observe(name: "x", in: path) {
            var local = 0
            let place = withUnsafeMutablePointer(to: &local) { Int(bitPattern: $0) }
            places.withLock { $0.append(place) }
        }
        for number in 1...200 {
            try CrossProcessNotification.post(name: "x", in: path)
            #expect(waitUntil { places.withLock { $0.count } == number })
        }
        let distance = places.withLock { abs(($0.last ?? 0) - ($0.first ?? 0)) }
        #expect(distance < 1000, "\(distance) bytes of the stack")
        observation.cancel()
    }

    @Test("the notifications as a sequence")
    func sequence() async throws {
        let other = try ActorProcess()
        var iterator = try CrossProcessNotification.notifications(name: "x", in: path).makeAsyncIterator()
        for _ in 0..<3 {
            #expect(other.ask("post \(path) x") == "ok")
            #expect(await iterator.next() != nil)
        }
    }

    @Test("the file goes with its store, and observers find the next one")
    func destruction() throws {
        let other = try ActorProcess()
        let count = Count()
        let observation = try CrossProcessNotification.observe(name: "x", in: path) { count.add() }
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        let report = try SharedStore.destroy(at: path)
        #expect(report.removed.contains { $0.hasSuffix("-notify") })
        // It makes the file again, and may have missed a post.
        #expect(waitUntil { FileManager.default.fileExists(atPath: path + "-notify") })
        #expect(waitUntil { count.value == 1 })
        #expect(other.ask("post \(path) x") == "ok")
        #expect(waitUntil { count.value == 2 })
        observation.cancel()
    }

    @Test("an observation in a folder that is not there, and a post without rights, say why")
    func refusals() throws {
        #expect(throws: SystemError.self) {
            _ = try CrossProcessNotification.observe(name: "x", in: folder.path("none/app.db")) {}
        }
        try CrossProcessNotification.post(name: "x", in: folder.path("none/app.db"))
        guard geteuid() == 0 else { return }
        let observation = try CrossProcessNotification.observe(name: "x", in: path) {}
        chmod(folder.url.path, 0o755)
        let stranger = try ActorProcess()
        #expect(stranger.ask("become 65534") == "ok")
        #expect(stranger.ask("post \(path) x")?.contains("errno 13") == true)
        observation.cancel()
    }
}
