import CipherStore
import Foundation
import TestKit
import Testing

/// Eight processes move money between a thousand accounts while they are stopped, killed and started again.
///
/// `CIPHERSTORE_BANK_SECONDS` sets the duration (6), `CIPHERSTORE_SEED` the transfers and the kills. The system's own
/// choices, such as which process runs next, cannot be reproduced.
@Suite(.serialized) struct BankTests {
    private static let workers = 8
    private static var seconds: Int {
        ProcessInfo.processInfo.environment["CIPHERSTORE_BANK_SECONDS"].flatMap { Int($0) } ?? 6
    }

    private let folder = TemporaryFolder()
    private let seed = Seed()
    private var path: String { folder.path("bank.db") }
    private var bank: Bank { Bank(folder: folder.url.path) }

    /// A worker's present process.
    private struct Life {
        let process: ActorProcess
        let number: Int
    }

    @Test("no sum is ever wrong, no acknowledged transfer is lost, and every page is authentic, whoever is killed")
    func killedAndRestarted() throws {
        print("bank: \(seed)")
        var lives = try openBank()
        let (kills, pauses) = try disturb(&lives)
        let told = close(lives)
        #expect(told.allSatisfy { $0.hasPrefix("ok ") }, "\(seed) \(told)")
        #expect(bank.reports.isEmpty, "\(seed) \(bank.reports.prefix(5))")
        var acknowledged = 0
        let problems = StoreProof.problems(path) { db in
            let (count, problems) = try audit(db, lives.map(\.number))
            acknowledged = count
            return problems
        }
        #expect(problems.isEmpty, "\(seed) \(problems.prefix(10))")
        #expect(acknowledged > 0 && kills > 0)
        print(
            "bank: \(seed), \(Self.seconds) s, \(kills) kills, \(pauses) stops, \(acknowledged) acknowledged transfers, "
                + "none lost")
        for line in told { print("bank: \(line.dropFirst(3))") }
    }

    /// Creates the accounts and starts all workers.
    private func openBank() throws -> [Life] {
        let founder = try ActorProcess()
        #expect(founder.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(founder.ask("bank-fill \(Bank.accounts) \(Bank.balance)") == "ok")
        let lives = try (0..<Self.workers).map { try begin($0, 0) }
        #expect(founder.ask("close") == "ok")
        return lives
    }

    /// Stops and kills one worker after another until the time is over.
    private func disturb(_ lives: inout [Life]) throws -> (kills: Int, pauses: Int) {
        var numbers = seed.numbers(0)
        var (kills, pauses) = (0, 0)
        let end = ContinuousClock.now + .seconds(Self.seconds)
        while ContinuousClock.now < end {
            let victim = Int.random(in: 0..<Self.workers, using: &numbers)
            let time = Duration.milliseconds(Int.random(in: 0..<300, using: &numbers))
            if Int.random(in: 0..<4, using: &numbers) == 0 {
                lives[victim].process.pause(for: time)
                pauses += 1
                continue
            }
            lives[victim].process.kill(after: time)
            let words = lives[victim].process.remainingAnswers().filter { !$0.hasPrefix("ok") }
            #expect(words.isEmpty, "\(seed) worker \(victim) life \(lives[victim].number): \(words)")
            kills += 1
            lives[victim] = try begin(victim, lives[victim].number + 1)
        }
        return (kills, pauses)
    }

    /// Ends all workers and reads their results.
    private func close(_ lives: [Life]) -> [String] {
        lives.enumerated().map { worker, life in
            #expect(life.process.answer()?.hasPrefix("ok") == true, "\(seed) worker \(worker) did not open")
            #expect(life.process.answer() == "ok", "\(seed) worker \(worker) did not work")
            return life.process.ask("bank-end") ?? "died"
        }
    }

    private func begin(_ worker: Int, _ life: Int) throws -> Life {
        let process = try ActorProcess()
        process.send("open \(path) raw 30")
        process.send("bank-work \(folder.url.path) \(worker) \(life) \(seed.value) raw")
        return Life(process: process, number: life)
    }

    /// Checks that the balance of each account is the sum of its transfers, and that each process's transfers are those
    /// it acknowledged, with at most one more: the one after whose commit it was killed.
    private func audit(_ db: Database, _ lastLives: [Int]) throws -> (acknowledged: Int, problems: [String]) {
        var problems: [String] = []
        if try Int.fetchOne(db, sql: "SELECT SUM(balance) FROM account") != Bank.total { problems.append("wrong sum") }
        let wrong = try Int.fetchOne(
            db,
            sql: """
                WITH moved (id, amount) AS (
                    SELECT source, -amount FROM transfer UNION ALL SELECT target, amount FROM transfer
                ), expected AS (SELECT id, SUM(amount) AS amount FROM moved GROUP BY id)
                SELECT COUNT(*) FROM account LEFT JOIN expected USING (id)
                WHERE balance <> \(Bank.balance) + COALESCE(amount, 0)
                """)
        if wrong != 0 { problems.append("\(wrong ?? -1) accounts do not have what was transferred") }
        var acknowledged = 0
        for (worker, last) in lastLives.enumerated() {
            for life in 0...last {
                let told = bank.acknowledged(worker: worker, life: life)
                let range = Bank.transfers(worker: worker, life: life)
                acknowledged += told
                // Transfers are numbered without a gap, so count and last number cover each of them.
                let row = try Row.fetchOne(
                    db, sql: "SELECT COUNT(*), MAX(id) FROM transfer WHERE id >= ? AND id < ?",
                    arguments: [range.lowerBound, range.upperBound])
                let count: Int = row?[0] ?? 0
                let highest: Int = row?[1] ?? range.lowerBound - 1
                if count != highest - range.lowerBound + 1 || !(told...(told + 1)).contains(count) {
                    problems.append("worker \(worker) life \(life): \(told) acknowledged, \(count) there")
                }
            }
        }
        return (acknowledged, problems)
    }
}
