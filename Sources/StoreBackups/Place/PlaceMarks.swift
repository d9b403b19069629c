import CipherStore
import Dispatch
import StoreCrypto
import StorePlatform
import Synchronization

/// The times of the marks of a place. Ages are those of objects by the clock of the server.
package struct PlaceTimes: Sendable {
    /// The mark of a process is void when it has not been renewed for so long. Servers refuse signatures that are older than
    /// 15 minutes, so a process that was stopped for longer changes nothing.
    package var leaseSeconds = 1200
    /// How often a mark is renewed.
    package var renewal = Duration.seconds(120)
    /// How long a prune relies on its mark without reading it.
    package var trust = Duration.seconds(60)
    /// How late a listing may be.
    package var listingDelay = Duration.seconds(3)
    /// An object that is younger is not removed.
    package var graceSeconds = 3600
    /// How long a user of the objects waits for a prune, and a prune for users.
    package var useWait = BackupLimits.useWait
    package var removalWait = BackupLimits.removalWait
    /// The pause between two attempts.
    package var pause = Duration.seconds(1)

    package init() {}
}

/// The marks by which processes exclude each other at a server without locks.
///
/// | step | a backup | a prune |
/// |---|---|---|
/// | 1 | puts `u/<random>-0` | puts `x/prune`, with a random content |
/// | 2 | gets `x/prune`: if it is there, removes its own mark and waits | waits for late listings, then lists `u/`: while a fresh mark is there, removes its own one and waits |
/// | 3 | renews: puts `u/<random>-<n>` | removes void marks of users |
/// | 4 | stores packs and blobs | reads all records, removes some, then objects that no record names |
/// | 5 | gets `u/<random>-0`, puts the record, gets it again | gets `x/prune` before it removes, at least once a minute |
///
/// At step 2 at least one of two sees the other. A backup that was stopped for so long that a prune took it for killed
/// finds its first mark missing at step 5, and fails. A void `x/prune` is removed by the backup that finds it; the prune
/// stops then. Nothing depends on `put` refusing a name that is taken, except that two prunes do not run at once, which
/// is harmless.
struct PlaceMarks: Sendable {
    static let uses = "u"
    static let removals = "x"
    static let removal = "x/prune"

    let times: PlaceTimes
    private let objects: any ServedObjects

    init(_ objects: any ServedObjects, _ times: PlaceTimes) {
        self.objects = objects
        self.times = times
    }

    /// Marks the objects as used.
    ///
    /// - Throws: `StoreError` `storeInUse` while they are pruned; `CancellationError`.
    func use(_ isCancelled: () -> Bool) throws -> UseMark {
        let deadline = ContinuousClock.now + times.useWait
        while true {
            let mark = UseMark(objects, id: try Self.randomName(), renewal: times.renewal)
            do {
                try mark.begin()
                if try !isPruned() { return mark }
            } catch {
                mark.end()
                throw error
            }
            mark.end()
            try wait(until: deadline, isCancelled) {
                inUse(
                    "It is being pruned, or a prune was killed less than \(times.leaseSeconds / 60) minutes ago.",
                    "Try again when the prune has ended.")
            }
        }
    }

    /// Marks the place as being pruned, when nobody uses the objects.
    ///
    /// - Throws: `StoreError` `storeInUse` where that takes too long; `CancellationError`.
    func removal(_ isCancelled: () -> Bool) throws -> RemovalMark {
        let deadline = ContinuousClock.now + times.removalWait
        while true {
            if try !isPruned() {
                let mark = RemovalMark(objects, try Self.randomName(), times, inUse)
                do {
                    if try mark.begin() {
                        try pause(times.listingDelay, isCancelled)
                        if try removeVoidUses(), try mark.isHeld() { return mark }
                    }
                } catch {
                    mark.end()
                    throw error
                }
                mark.end()
            }
            try wait(until: deadline, isCancelled) {
                inUse(
                    "A backup, a restoration, a verification or a prune uses it, or one was killed less than "
                        + "\(times.leaseSeconds / 60) minutes ago.",
                    "Try again when that has ended. Nothing was changed.")
            }
        }
    }

    /// Requires that no prune has taken the users with these marks for killed.
    func require(_ marks: [UseMark]) throws {
        for mark in marks where try !mark.isHeld() {
            throw inUse(
                "A prune has begun, because this process did not renew its mark for \(times.leaseSeconds / 60) minutes.",
                "Run the command again. What it has stored is no backup.")
        }
    }

    /// Whether a prune runs. The mark of a killed one is removed.
    private func isPruned() throws -> Bool {
        guard try objects.get(Self.removal, limitBytes: 64) != nil else { return false }
        let listing = try objects.listing(Self.removals + "/")
        // A listing that is late does not have it yet: it is fresh.
        guard let mark = listing.entries.first(where: { $0.name == Self.removal }), isVoid(mark, listing) else {
            return true
        }
        try objects.delete(Self.removal)
        return false
    }

    /// Removes the marks of killed users.
    ///
    /// - Returns: Whether no other user is left.
    private func removeVoidUses() throws -> Bool {
        let listing = try objects.listing(Self.uses + "/")
        let users = Dictionary(grouping: listing.entries) { $0.name.prefix { $0 != "-" } }
        for marks in users.values {
            guard marks.allSatisfy({ isVoid($0, listing) }) else { return false }
            for mark in marks { try objects.delete(mark.name) }
        }
        return true
    }

    private func isVoid(_ mark: ServedListing.Entry, _ listing: ServedListing) -> Bool {
        listing.now - mark.stored > times.leaseSeconds
    }

    private func wait(until deadline: ContinuousClock.Instant, _ isCancelled: () -> Bool, _ error: () -> StoreError)
        throws
    {
        guard ContinuousClock.now < deadline else { throw error() }
        try pause(times.pause * Double.random(in: 0.5...1), isCancelled)
    }

    private func pause(_ duration: Duration, _ isCancelled: () -> Bool) throws {
        let end = ContinuousClock.now + duration
        while ContinuousClock.now < end {
            if isCancelled() { throw CancellationError() }
            Pause.sleep(for: min(BackupLimits.lockPause, end - .now))
        }
    }

    private static func randomName() throws -> String { Hex.text(try SystemRandom.bytes(16)) }

    private func inUse(_ why: String, _ remedy: String) -> StoreError {
        StoreError(
            .storeInUse, what: "The backup repository \"\(objects.description)\" is in use.", why: why, remedy: remedy)
    }
}

/// The mark of a process that uses objects: `u/<random>-0`, and later ones that renew it.
final class UseMark: Sendable {
    private let objects: any ServedObjects
    private let start: String
    private let clock: RenewalClock
    /// The number of the last one.
    private let last = Atomic<Int>(0)

    init(_ objects: any ServedObjects, id: String, renewal: Duration) {
        self.objects = objects
        start = "\(PlaceMarks.uses)/\(id)-"
        clock = RenewalClock(renewal)
    }

    func begin() throws {
        _ = try objects.put(start + "0", [])
        clock.start { [self] in
            let next = last.wrappingAdd(1, ordering: .relaxed).newValue
            _ = try objects.put(start + "\(next)", [])
            if next > 1 { try objects.delete(start + "\(next - 1)") }
        }
    }

    /// Whether its first mark is there. It is never put again.
    func isHeld() throws -> Bool { try objects.get(start + "0", limitBytes: 1) != nil }

    /// Removes it. If that fails, it is void later.
    func end() {
        clock.end()
        let newest = last.load(ordering: .relaxed)
        for number in Set([0, newest - 1, newest]) where number >= 0 { try? objects.delete(start + "\(number)") }
    }
}

/// The mark of a prune: `x/prune` with a random content.
final class RemovalMark: Sendable {
    private let objects: any ServedObjects
    private let content: [UInt8]
    private let times: PlaceTimes
    private let clock: RenewalClock
    private let error: @Sendable (String, String) -> StoreError
    /// When it was seen last, by both clocks: one of them does not count while a machine sleeps.
    private let seen = Mutex<(ContinuousClock.Instant, UInt64)?>(nil)

    init(
        _ objects: any ServedObjects, _ content: String, _ times: PlaceTimes,
        _ error: @escaping @Sendable (String, String) -> StoreError
    ) {
        self.objects = objects
        self.content = Array(content.utf8)
        self.times = times
        self.error = error
        clock = RenewalClock(times.renewal)
    }

    /// - Returns: Whether no other prune has put its mark.
    func begin() throws -> Bool {
        // An attempt whose answer was lost finds its own mark.
        if try objects.put(PlaceMarks.removal, content) == .alreadyPresent, try !isHeld() { return false }
        clock.start { [self] in
            if try isHeld() { try objects.replace(PlaceMarks.removal, content) }
        }
        return true
    }

    func isHeld() throws -> Bool {
        let now = (ContinuousClock.now, WallClock.secondsSince1970)
        guard try objects.get(PlaceMarks.removal, limitBytes: 64) == content else { return false }
        seen.withLock { $0 = now }
        return true
    }

    /// Requires that it was seen lately, or is there.
    func require() throws {
        let trust = times.trust
        let isFresh = seen.withLock { seen in
            guard let seen else { return false }
            let now = WallClock.secondsSince1970
            return ContinuousClock.now - seen.0 < trust && now >= seen.1
                && now - seen.1 <= UInt64(trust / .seconds(1))
        }
        guard !isFresh, try !isHeld() else { return }
        throw error(
            "Another process has taken this prune for killed.", "Run the prune again: it completes. No backup is lost.")
    }

    /// Removes it. If that fails, it is void later.
    func end() {
        clock.end()
        if (try? isHeld()) == true { try? objects.delete(PlaceMarks.removal) }
    }
}

/// Renews a mark from time to time, on a thread of its own.
// Safe because: the timer is used on the queue alone.
private final class RenewalClock: @unchecked Sendable {
    private let interval: Duration
    private let queue = DispatchQueue(label: "PlaceMarks")
    private var timer: (any DispatchSourceTimer)?

    init(_ interval: Duration) { self.interval = interval }

    /// - Parameter renew: Called until ``end()``. If it fails, the next call is the next attempt.
    func start(_ renew: @escaping @Sendable () throws -> Void) {
        queue.sync {
            let source = DispatchSource.makeTimerSource(queue: queue)
            source.schedule(deadline: .now() + (interval / .seconds(1)), repeating: interval / .seconds(1))
            source.setEventHandler { try? renew() }
            source.resume()
            timer = source
        }
    }

    /// Ends it, and waits for a call that has begun.
    func end() {
        queue.sync {
            timer?.cancel()
            timer = nil
        }
    }
}
