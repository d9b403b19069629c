import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Openings of a store whose rotation was killed in the switch, while another process holds the lock `admin`.
///
/// An opener once waited for `admin` while it held the lock `opening`. No other process could open the store meanwhile,
/// and a process that held `admin` and needed `opening`, such as a restoration, waited for nothing.
@Suite(.serialized) struct InterruptedSwitchTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private var backup: String { folder.path("backup") }

    private func locks() throws -> LockFile { try LockFile(path: path + "-lock", likeFile: path) }

    /// Leaves a store with one row and a backup, whose rotation died when the sidecar announced the switch.
    private func cutSwitch(at place: CrashPoint = .rotationSwitchingWritten) throws {
        let rotator = try ActorProcess()
        #expect(rotator.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(rotator.ask("mark 1") == "ok")
        #expect(rotator.ask("backup \(backup)")?.hasPrefix("ok ") == true)
        #expect(rotator.ask("die-at \(place.rawValue)") == "ok")
        #expect(rotator.ask("rotate") == nil)
    }

    /// A process that is held at a crash point when it has acquired the lock `opening`.
    private func opener() throws -> (ActorProcess, StandingPlace) {
        let opener = try ActorProcess()
        let place = StandingPlace(folder.path("opener"))
        #expect(opener.ask("stand-at openingLockTaken \(place.path)") == "ok")
        return (opener, place)
    }

    @Test("an opener that waits for the end of a switch keeps nobody from opening, and opens when it has come")
    func opening() throws {
        try cutSwitch()
        let admin = try #require(try locks().tryLock(.admin, .exclusive))
        let (opener, place) = try opener()
        opener.send("open \(path) raw")
        #expect(waitUntil { place.isReached })
        #expect(try locks().tryLock(.opening, .exclusive) == nil)
        place.leave()
        let opening = try waitUntil(within: .seconds(10)) { try locks().tryLock(.opening, .exclusive) != nil }
        #expect(opening, "the opener keeps the lock")
        // It keeps no lease, either, which a restoration needs exclusively.
        #expect(try waitUntil(within: .seconds(10)) { try locks().tryLock(.lease, .exclusive) != nil })
        admin.release()
        let answer = opener.answer() ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        #expect(opener.ask("epoch") == "ok 2")
        #expect(opener.ask("total") == "ok 2")
    }

    @Test("a process that comes back from a switch that was cut keeps nobody from opening while it waits, and goes on")
    func comingBack() throws {
        let (peer, place) = (try ActorProcess(), StandingPlace(folder.path("peer")))
        #expect(peer.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(peer.ask("stand-at openingLockTaken \(place.path)") == "ok")
        try cutSwitch()
        #expect(waitUntil { place.isReached })
        let admin = try #require(try locks().tryLock(.admin, .exclusive))
        place.leave()
        let opening = try waitUntil(within: .seconds(10)) { try locks().tryLock(.opening, .exclusive) != nil }
        #expect(opening, "the process keeps the lock")
        admin.release()
        let answer = peer.ask("mark 1") ?? "died"
        #expect(answer == "ok", "\(answer)")
        #expect(peer.ask("epoch") == "ok 2")
        #expect(peer.ask("total") == "ok 3")
    }

    // While the holder of the lock `opening` was stopped, the store once waited a minute for that lock, and close()
    // waited for the store.
    @Test("a store that comes back from a switch is closed at once though somebody keeps the lock for openings")
    func closing() throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        let request = try #require(try YieldRequest.ask(StorePaths(path)))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20)))
        let (opening, admin) = try (
            #require(try locks().tryLock(.opening, .exclusive)), #require(try locks().tryLock(.admin, .exclusive))
        )
        try KeySwitch(path).announceSwitch()
        admin.release()
        lease.release()
        request.end()
        // With its lease the store begins to open, and finds a switch that no process completes.
        #expect(try waitUntil { try locks().isHeld(.lease) })
        let begin = ContinuousClock.now
        try store.close()
        #expect(ContinuousClock.now - begin < .seconds(10))
        opening.release()
    }

    @Test("a store that only a backup can save is restored although a program tries to open it all the time")
    func restoration() throws {
        // The WAL is empty by then, so that the copy alone has every commit.
        try cutSwitch(at: .rotationWALReplaced)
        let copy = try FileDescriptor(opening: path + "-rotating", .readWrite)
        try copy.truncate(toByteCount: 4096)
        let (restorer, copied) = (try ActorProcess(), StandingPlace(folder.path("restorer")))
        let refusal = restorer.ask("open \(path) raw") ?? "died"
        #expect(refusal.hasPrefix("error rotationPending") && refusal.contains("from a backup"), "\(refusal)")
        #expect(restorer.ask("stand-at restorePrepared \(copied.path)") == "ok")
        restorer.send("restore \(backup) \(path) raw replace")
        #expect(waitUntil { copied.isReached })
        let (opener, place) = try opener()
        opener.send("open \(path) raw")
        #expect(waitUntil { place.isReached })
        place.leave()
        copied.leave()
        let answer = restorer.answer() ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        #expect(opener.answer()?.hasPrefix("ok ") == true)
        #expect(opener.ask("total") == "ok 2")
    }
}
