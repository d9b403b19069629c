import CipherStore
import Foundation
import StorePlatform
import Synchronization

extension Actor {
    /// Observations of what other processes commit.
    ///
    /// - `observe value|constant|region [TABLE]`: begins to observe the number of rows of a table, `mark` by default.
    ///   `observed` answers how many values or changes there were, and the last number or the error; `observe-end` ends
    ///   it. `monitor` answers the monitor's notices, file changes, polls, looks, finds, and finds of polls.
    /// - `time-observe` measures from the commits of `time-write COUNT PAUSE-MICROSECONDS`, in another process, to the
    ///   function of a `DatabaseRegionObservation`; `times` answers the number, the median and the 99th percentile in
    ///   microseconds, and forgets them. `processor-time` answers what this process took, in microseconds.
    /// - `post PATH NAME` posts a notification, `observe-posts PATH NAME` counts them, and `posts` answers the number.
    /// - `execute SQL` runs statements in a transaction. `record TABLE...` records the history of tables, `acknowledge NAME`
    ///   makes a reader of the history that has read everything, `purge` purges all but the last changes.
    static let observationCommands: [String: Command] = [
        "observe": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            actor.observed = try ObservedRows(store, words[0], words.count > 1 ? words[1] : "mark")
            return ""
        },
        "observed": { actor, _ in
            guard let observed = actor.observed else { throw ActorError.nothingIsOpen }
            return observed.description
        },
        "observe-end": { actor, _ in
            actor.observed = nil
            return ""
        },
        "monitor": { actor, _ in
            guard let store = actor.store, let counts = store.writeWithoutTransaction({ $0.processMonitorCounts })
            else { return "none" }
            return "\(counts.notices) \(counts.fileChanges) \(counts.timedPolls) \(counts.polls) \(counts.finds) "
                + "\(counts.timedFinds)"
        },
        "time-observe": { actor, _ in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            actor.times = try NoticeTimes(store)
            return ""
        },
        "time-write": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            let pause = words.count > 1 ? UInt32(words[1]) ?? 0 : 0
            for _ in 0..<(Int(words[0]) ?? 0) {
                try store.write { db in
                    try db.execute(
                        sql: "INSERT INTO mark (process, text) VALUES (?, 'timed')",
                        arguments: [Int64(bitPattern: MonotonicTime.now)])
                }
                if pause > 0 { usleep(pause) }
            }
            return ""
        },
        "times": { actor, _ in actor.times?.take() ?? "" },
        "post": { _, words in
            try CrossProcessNotification.post(name: words[1], in: words[0])
            return ""
        },
        "observe-posts": { actor, words in
            actor.posts = try CountedPosts(words[1], words[0])
            return ""
        },
        "posts": { actor, _ in String(actor.posts?.count ?? -1) },
        "execute": { actor, words in
            try actor.writer().write { try $0.execute(sql: words.joined(separator: " ")) }
            return ""
        },
        "record": { actor, words in
            try actor.writer().write { try $0.recordHistory(of: .tables(words)) }
            return ""
        },
        "acknowledge": { actor, words in
            try actor.writer().write { db in
                try db.registerHistoryReader(words[0])
                try db.acknowledgeHistory(upTo: db.historyToken(), by: words[0])
            }
            return ""
        },
        "purge": { actor, _ in
            try actor.writer().write { try $0.setHistoryLimits(HistoryLimits(count: 10)) }
            try actor.writer().purgeHistory()
            return ""
        },
        "processor-time": { _, _ in
            var time = timespec()
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
            return String(time.tv_sec * 1_000_000 + time.tv_nsec / 1000)
        },
    ]
}

/// An observation of the number of rows of a table.
final class ObservedRows: Sendable, CustomStringConvertible {
    private let sink = Sink()
    private let cancellable: AnyDatabaseCancellable

    init(_ store: SharedStore, _ kind: String, _ table: String) throws {
        let sink = sink
        let fetch: @Sendable (Database) throws -> Int = { db in
            try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \(table)") ?? -1
        }
        let queue = DispatchQueue(label: "observed")
        switch kind {
        case "region":
            cancellable = DatabaseRegionObservation(tracking: Table(table)).start(
                in: store, onError: { sink.add("\($0)") },
                onChange: { db in sink.add((try? fetch(db)).map(String.init) ?? "failed") })
        case "constant":
            cancellable = ValueObservation.trackingConstantRegion(fetch).start(
                in: store, scheduling: .async(onQueue: queue), onError: { sink.add("\($0)") },
                onChange: { sink.add("\($0)") })
        case "value":
            cancellable = ValueObservation.tracking(fetch).start(
                in: store, scheduling: .async(onQueue: queue), onError: { sink.add("\($0)") },
                onChange: { sink.add("\($0)") })
        default: throw ActorError.badArguments([kind])
        }
    }

    var description: String { sink.description }

    /// Takes what is observed, on any thread.
    private final class Sink: Sendable {
        private struct State {
            var count = 0
            var last = ""
        }

        private let state = Mutex(State())

        func add(_ value: String) {
            state.withLock { state in
                state.count += 1
                state.last = value
            }
        }

        var description: String { state.withLock { "\($0.count) \($0.last)" } }
    }
}

/// How long it took from commits of another process to the function of an observation, which get the moment from the
/// rows.
final class NoticeTimes: Sendable {
    private struct State {
        var lastRow: Int64 = 0
        var nanoseconds: [UInt64] = []
    }

    private final class Sink: Sendable {
        let state = Mutex(State())
    }

    private let sink = Sink()
    private let cancellable: AnyDatabaseCancellable

    init(_ store: SharedStore) throws {
        let sink = sink
        cancellable = try DatabaseRegionObservation(tracking: Table("mark")).start(in: store) { db in
            let now = MonotonicTime.now
            let last = sink.state.withLock { $0.lastRow }
            let row = try? Row.fetchOne(db, sql: "SELECT id, process FROM mark ORDER BY id DESC LIMIT 1")
            guard let row, let id: Int64 = row["id"], let start: Int64 = row["process"], id > last else { return }
            sink.state.withLock { state in
                state.lastRow = id
                state.nanoseconds.append(now &- UInt64(bitPattern: start))
            }
        }
    }

    func take() -> String {
        let times = sink.state.withLock { state in
            defer { state.nanoseconds = [] }
            return state.nanoseconds.sorted()
        }
        guard !times.isEmpty else { return "0 0 0" }
        func microseconds(_ share: Double) -> UInt64 {
            times[min(times.count - 1, Int(Double(times.count) * share))] / 1000
        }
        return "\(times.count) \(microseconds(0.5)) \(microseconds(0.99))"
    }
}

/// The notifications of a name that were observed.
final class CountedPosts: Sendable {
    private final class Count: Sendable {
        let value = Atomic<Int>(0)
    }

    private let number = Count()
    private let observation: AnyDatabaseCancellable

    init(_ name: String, _ path: String) throws {
        let number = number
        observation = try CrossProcessNotification.observe(name: name, in: path) {
            number.value.add(1, ordering: .sequentiallyConsistent)
        }
    }

    var count: Int { number.value.load(ordering: .sequentiallyConsistent) }
}
