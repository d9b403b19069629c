import CipherStore
import Foundation
import TestKit
import Testing

/// Writers and observers that are killed and started again: no wake-up and no change is lost.
///
/// `CIPHERSTORE_COMMITS` sets the commits (3,000), `CIPHERSTORE_SEED` the kills. Two of three observers have no watch of
/// files: a notice that is lost leaves them asleep until they look by themselves, after a second, which is counted.
@Suite(.serialized) struct WakeUpTests {
    private static let commits =
        ProcessInfo.processInfo.environment["CIPHERSTORE_COMMITS"].flatMap { Int($0) } ?? 3_000
    private static let writers = 4
    private static let observers = 3
    /// Of the second after which a look finds what was not noticed, in microseconds.
    private static let longestMoment = 300_000

    private let folder = TemporaryFolder()
    private let seed = Seed()
    private var path: String { folder.path("app.db") }
    private var bank: Bank { Bank(folder: folder.url.path) }

    /// The events so far.
    private struct Count {
        var commits = 0
        var writerKills = 0
        var observerKills = 0
        var bursts = 0
        /// Bursts whose last commit somebody has only found by a look of his own.
        var lost = 0
        /// From each last commit to its observation, in microseconds.
        var delays: [Int] = []
        var burstTime = Duration.milliseconds(100)
    }

    private func writer() throws -> ActorProcess {
        let process = try ActorProcess()
        process.send("open \(path) raw 60")
        return process
    }

    private func observer(_ number: Int) throws -> ActorProcess {
        let process = try ActorProcess()
        if number > 0 { process.send("no-file-watch") }
        process.send("open \(path) raw 60")
        process.send("wake-observe \(folder.url.path) \(number)")
        return process
    }

    private func acknowledged(_ writer: Int) -> String { folder.path("acknowledged-\(writer)") }

    private func expectStart(_ process: ActorProcess, answers: Int) {
        for _ in 0..<answers {
            let answer = process.answer() ?? "died"
            #expect(answer.hasPrefix("ok"), "\(seed) \(answer)")
        }
    }

    @Test("whoever is killed, each observer sees the last state, and each reader of the history has each change once")
    func killedAndRestarted() throws {
        print("wake-ups: \(seed)")
        let founder = try writer()
        expectStart(founder, answers: 1)
        #expect(founder.ask("execute INSERT INTO account VALUES (1, 'updates', 0)") == "ok")
        #expect(founder.ask("record mark account") == "ok")
        var writers = try (0..<Self.writers).map { _ in try writer() }
        var observers = try (0..<Self.observers).map { try observer($0) }
        for process in writers { expectStart(process, answers: 1) }
        for (number, process) in observers.enumerated() { expectStart(process, answers: number > 0 ? 3 : 2) }
        var (numbers, count) = (seed.numbers(0), Count())
        while count.commits < Self.commits || count.writerKills == 0 || count.observerKills == 0,
            bank.reports.isEmpty
        {
            try burst(&writers, &observers, &numbers, &count)
            try expectLast(of: founder, observers, &count)
        }
        for process in writers + observers + [founder] { #expect(process.ask("close") == "ok") }
        #expect(count.lost == 0, "\(seed)")
        #expect(count.writerKills > 0 && count.observerKills > 0)
        #expect(bank.reports.isEmpty, "\(seed) \(bank.reports.prefix(5))")
        let problems = StoreProof.problems(path) { try audit($0, count) }
        #expect(problems.isEmpty, "\(seed) \(problems.prefix(5))")
        let delays = count.delays.sorted()
        print(
            "wake-ups: \(seed), \(count.commits) commits in \(count.bursts) bursts, \(count.writerKills) writers and "
                + "\(count.observerKills) observers killed, \(count.lost) wake-ups lost; of \(delays.count) last commits "
                + "half were observed within \(delays[delays.count / 2]) us, all within \(delays.last ?? 0) us")
    }

    /// All writers commit, while some processes are killed, which are started again afterwards.
    private func burst(
        _ writers: inout [ActorProcess], _ observers: inout [ActorProcess], _ numbers: inout RandomNumbers,
        _ count: inout Count
    ) throws {
        let before = (0..<Self.writers).map { Bank.length(acknowledged($0)) }
        let length = Int.random(in: 1...400, using: &numbers)
        let start = ContinuousClock.now
        for (number, process) in writers.enumerated() { process.send("wake-write \(acknowledged(number)) \(length)") }
        let victims = (
            writers: writers.indices.filter { _ in Int.random(in: 0..<4, using: &numbers) == 0 },
            observers: observers.indices.filter { _ in Int.random(in: 0..<6, using: &numbers) == 0 }
        )
        let longest = max(1, Int(count.burstTime / .microseconds(1)))
        for number in victims.observers {
            observers[number].kill(after: .microseconds(Int.random(in: 0..<longest, using: &numbers)))
        }
        for number in victims.writers {
            writers[number].kill(after: .microseconds(Int.random(in: 0..<longest, using: &numbers)))
        }
        for (number, process) in writers.enumerated() where !victims.writers.contains(number) {
            #expect(process.answer() == "ok", "\(seed) writer \(number)")
        }
        // The kills of the next burst come in its time.
        if victims.writers.isEmpty && victims.observers.isEmpty { count.burstTime = ContinuousClock.now - start }
        for number in victims.writers { writers[number] = try writer() }
        for number in victims.observers { observers[number] = try observer(number) }
        for number in victims.writers { expectStart(writers[number], answers: 1) }
        for number in victims.observers { expectStart(observers[number], answers: number > 0 ? 3 : 2) }
        count.writerKills += victims.writers.count
        count.observerKills += victims.observers.count
        for number in 0..<Self.writers { count.commits += Bank.length(acknowledged(number)) - before[number] }
        count.bursts += 1
    }

    /// One more commit, by a process that is not killed: all observers see it.
    private func expectLast(of founder: ActorProcess, _ observers: [ActorProcess], _ count: inout Count) throws {
        let finds = observers.map(findsOfPolls)
        let row = try #require(founder.ask("wake-last").flatMap { Int($0.dropFirst(3)) })
        count.commits += 1
        for (number, process) in observers.enumerated() {
            let answer = process.ask("wake-await \(row)") ?? "died"
            guard let delay = Int(answer.dropFirst(3)), answer.hasPrefix("ok") else {
                Issue.record("\(seed) observer \(number): \(answer)")
                continue
            }
            count.delays.append(delay)
            // A look of its own may also come in the moment between a commit and its notice.
            if findsOfPolls(process) != finds[number], delay > Self.longestMoment { count.lost += 1 }
        }
    }

    private func findsOfPolls(_ observer: ActorProcess) -> Int {
        observer.ask("monitor").flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? -1
    }

    /// Each commit that was acknowledged is there, and at most one more for each kill; each reader has read all.
    private func audit(_ db: Database, _ count: Count) throws -> [String] {
        var problems: [String] = []
        let rows = try Int64.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") ?? 0
        let last = try Int64.fetchOne(db, sql: "SELECT MAX(id) FROM mark") ?? 0
        let updates = try Int64.fetchOne(db, sql: "SELECT balance FROM account") ?? 0
        // One row was there before.
        if rows != last || !(count.commits...(count.commits + count.writerKills)).contains(Int(rows) - 1) {
            problems.append("\(rows) rows up to \(last) of \(count.commits) commits")
        }
        for number in 0..<Self.observers {
            let kept = WokenLine.last(in: try Data(contentsOf: folder.url.appendingPathComponent("read-\(number)")))
            if kept.line?.row != last || kept.line?.updates != updates {
                problems.append(
                    "reader \(number) has rows up to \(kept.line?.row ?? -1) of \(last) and "
                        + "\(kept.line?.updates ?? -1) of \(updates) updates")
            }
        }
        return problems
    }
}
