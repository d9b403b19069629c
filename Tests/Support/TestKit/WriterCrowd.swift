import CipherStore
import Foundation

/// Processes that each move money between the bank's accounts, one transaction after another, until they are stopped.
public final class WriterCrowd {
    private let path: String
    private let folder: String
    private let processes: [ActorProcess]
    private var began = ContinuousClock.now

    /// The sum of all of them.
    public struct Work {
        /// The transactions of each process.
        public var transactions: [Int] = []
        /// The longest transaction of any process, its wait included, in milliseconds.
        public var longestMilliseconds = 0
        /// The first error of each process that had one.
        public var failures: [String] = []
        public var seconds = 0.0

        /// Transactions per second of all processes together.
        public var rate: Int { Int(Double(transactions.reduce(0, +)) / seconds) }
    }

    /// Makes the store with the bank's accounts, and starts the processes; they open it with ``open()``.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - folder: Where each process counts its commits.
    ///   - prepare: More work with the new store.
    public init(
        _ count: Int, at path: String, folder: String, prepare: (ActorProcess) -> Void = { _ in }
    ) throws {
        (self.path, self.folder) = (path, folder)
        let founder = try ActorProcess()
        founder.ask("open \(path) raw 30")
        founder.ask("bank-fill \(Bank.accounts) \(Bank.balance)")
        prepare(founder)
        founder.end()
        processes = try (0..<count).map { _ in try ActorProcess() }
    }

    private func acknowledgements(_ index: Int) -> String { "\(folder)/crowd-\(index)" }

    /// Lets all processes open the store at the same moment.
    ///
    /// - Returns: How long it took until the last one had it, and what failed.
    public func open() -> (time: Duration, failures: [String]) {
        let start = ContinuousClock.now
        for process in processes { process.send("open \(path) raw 30") }
        let failures = processes.map { $0.answer() ?? "died" }.filter { !$0.hasPrefix("ok ") }
        return (.now - start, failures)
    }

    /// Lets all processes begin to write.
    public func begin() {
        began = .now
        for (index, process) in processes.enumerated() { process.send("load-write \(acknowledgements(index))") }
        for process in processes { _ = process.answer() }
    }

    /// Waits until each process has committed so many transactions more.
    ///
    /// - Returns: Whether all of them have within five minutes.
    public func eachCommits(_ count: Int) -> Bool {
        let aims = processes.indices.map { Bank.length(acknowledgements($0)) + count }
        let deadline = ContinuousClock.now + .seconds(300 * slowness)
        for (index, aim) in aims.enumerated() {
            while Bank.length(acknowledgements(index)) < aim {
                guard ContinuousClock.now < deadline else { return false }
                // Seldom, because the writers need the processors.
                usleep(5000)
            }
        }
        return true
    }

    /// Stops the work; the processes still have the store open.
    public func end() -> Work {
        for process in processes { process.send("load-end") }
        var work = Work()
        for process in processes {
            // `ok`, transactions, failures, the longest in milliseconds, the first error
            let words = (process.answer() ?? "died").split(separator: " ", maxSplits: 4).map(String.init)
            guard words.count > 3, words[0] == "ok" else {
                work.failures.append(words.joined(separator: " "))
                continue
            }
            work.transactions.append(Int(words[1]) ?? 0)
            work.longestMilliseconds = max(work.longestMilliseconds, Int(words[3]) ?? 0)
            if words[2] != "0" { work.failures.append(words.dropFirst(4).joined()) }
        }
        work.seconds = (ContinuousClock.now - began) / .seconds(1)
        return work
    }

    /// Ends all processes, and compares the store with what they acknowledged.
    ///
    /// - Returns: What is wrong; empty when nothing is.
    public func audit(_ work: Work) -> [String] {
        let writers = zip(processes.map(\.processIdentifier), work.transactions)
        for process in processes { process.send("close") }
        for process in processes { process.end() }
        return StoreProof.problems(path) { db in
            var problems: [String] = []
            let sum = try Int.fetchOne(db, sql: "SELECT SUM(balance) FROM account")
            if sum != Bank.total { problems.append("a sum of \(sum ?? -1)") }
            for (process, acknowledged) in writers {
                let rows = try Int.fetchOne(
                    db, sql: "SELECT COUNT(*) FROM mark WHERE process = ? AND text = 'busy'", arguments: [process])
                if rows != acknowledged { problems.append("process \(process): \(rows ?? -1) rows of \(acknowledged)") }
            }
            return problems
        }
    }
}
