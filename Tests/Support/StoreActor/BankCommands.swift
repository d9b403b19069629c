import CipherStore
import Foundation
import Synchronization
import TestKit

extension Actor {
    /// The bank: `bank-fill ACCOUNTS BALANCE` opens the accounts, `bank-work FOLDER WORKER LIFE SEED KEY` begins to work
    /// on them beside the commands that follow, `bank-end` stops that and answers what was done.
    static let bankCommands: [String: Command] = [
        "bank-fill": { actor, words in
            guard words.count > 1, let accounts = Int(words[0]), let balance = Int(words[1]) else {
                throw ActorError.badArguments(words)
            }
            try actor.writer().write { db in
                let statement = try db.makeStatement(
                    sql: "INSERT INTO account (id, name, balance) VALUES (?, 'account', ?)")
                for id in 1...accounts { try statement.execute(arguments: [id, balance]) }
            }
            return ""
        },
        "bank-work": { actor, words in
            guard words.count > 4, let store = actor.store, let worker = Int(words[1]), let life = Int(words[2]),
                let seed = UInt64(words[3])
            else { throw ActorError.badArguments(words) }
            // The teller opens the store anew, now and then.
            try store.close()
            actor.store = nil
            let teller = try Teller(
                path: store.path, in: Bank(folder: words[0]), worker: worker, life: life, key: words[4])
            actor.teller = teller
            teller.start(Seed(value: seed).numbers(worker &* 1_000_000 &+ life))
            return ""
        },
        "bank-end": { actor, _ in try actor.teller?.end() ?? "" },
    ]
}

/// One worker of the bank: moves money, asks for sums, checkpoints, closes and opens the store, and is suspended all the
/// while by another thread of its process.
// Safe because: `store` belongs to the thread of the work until that has ended; the rest is constant.
final class Teller: @unchecked Sendable {
    private let bank: Bank
    private let path: String
    private let key: String
    private let firstTransfer: Int
    private let acknowledged: Acknowledgements
    private var store: SharedStore
    private let stopped = Flag()
    private let done = DispatchSemaphore(value: 0)
    private let doneSuspending = DispatchSemaphore(value: 0)
    private let suspensions = Atomic(0)
    private var interruptions = 0
    private var transfers = 0
    private var sums = 0
    private var checkpoints = 0
    private var openings = 0
    private var refusals = 0

    init(path: String, in bank: Bank, worker: Int, life: Int, key: String) throws {
        store = try Self.open(path, key)
        self.bank = bank
        self.key = key
        self.path = path
        firstTransfer = Bank.firstTransfer(worker: worker, life: life)
        acknowledged = try Acknowledgements(bank.acknowledgements(worker: worker, life: life))
    }

    func start(_ numbers: RandomNumbers) {
        Thread.detachNewThread { [self] in
            var numbers = numbers
            while !stopped.isSet {
                do {
                    try act(&numbers)
                } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                    // So many processes may keep one of them waiting for longer than it is ready to.
                    refusals += 1
                } catch DatabaseError.SQLITE_ABORT, DatabaseError.SQLITE_INTERRUPT {
                    interruptions += 1
                } catch {
                    bank.report("unexpected error: \(error)")
                }
            }
            done.signal()
        }
        Thread.detachNewThread { [self] in
            var numbers = numbers
            while !stopped.isSet {
                usleep(UInt32.random(in: 20_000...300_000, using: &numbers))
                NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
                usleep(UInt32.random(in: 0...20_000, using: &numbers))
                NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
                suspensions.add(1, ordering: .relaxed)
            }
            doneSuspending.signal()
        }
    }

    func end() throws -> String {
        stopped.set()
        doneSuspending.wait()
        done.wait()
        try store.close()
        return "\(transfers) transfers, \(sums) sums, \(checkpoints) checkpoints, \(openings) openings, "
            + "\(refusals) refusals, \(suspensions.load(ordering: .relaxed)) suspensions, \(interruptions) interruptions"
    }

    private static func open(_ path: String, _ key: String) throws -> SharedStore {
        var config = Configuration()
        config.busyMode = .timeout(30)
        config.observesSuspensionNotifications = true
        while true {
            do {
                return try SharedStore.open(at: path, unlockedBy: TestKeys.source(key), configuration: config)
            } catch DatabaseError.SQLITE_ABORT, DatabaseError.SQLITE_INTERRUPT, DatabaseError.SQLITE_BUSY {
                // Suspended in the middle of it, or kept waiting by many others: once more.
                usleep(1000)
            }
        }
    }

    private func act(_ numbers: inout RandomNumbers) throws {
        switch Int.random(in: 0..<100, using: &numbers) {
        case 0..<70: try transfer(&numbers)
        case 70..<95: try checkSum()
        case 95..<98:
            _ = try store.checkpoint(.passive)
            checkpoints += 1
        case 98: try withdrawAndChangeMind(&numbers)
        default:
            try store.close()
            store = try Self.open(path, key)
            openings += 1
        }
    }

    private func transfer(_ numbers: inout RandomNumbers) throws {
        let source = Int.random(in: 1...Bank.accounts, using: &numbers)
        let target = Int.random(in: 1...Bank.accounts, using: &numbers)
        let amount = Int.random(in: 1...100, using: &numbers)
        try store.write { db in
            try db.execute(sql: "UPDATE account SET balance = balance - ? WHERE id = ?", arguments: [amount, source])
            try db.execute(sql: "UPDATE account SET balance = balance + ? WHERE id = ?", arguments: [amount, target])
            try db.execute(
                sql: "INSERT INTO transfer VALUES (?, ?, ?, ?)",
                arguments: [firstTransfer + transfers, source, target, amount])
        }
        acknowledged.add()
        transfers += 1
    }

    private func withdrawAndChangeMind(_ numbers: inout RandomNumbers) throws {
        struct ChangeOfMind: Error {}
        let source = Int.random(in: 1...Bank.accounts, using: &numbers)
        do {
            try store.write { db in
                try db.execute(sql: "UPDATE account SET balance = 0 WHERE id = ?", arguments: [source])
                throw ChangeOfMind()
            }
        } catch is ChangeOfMind {}
    }

    private func checkSum() throws {
        let found = try store.read { try Int.fetchOne($0, sql: "SELECT SUM(balance) FROM account") }
        if found != Bank.total { bank.report("a sum of \(found ?? -1) instead of \(Bank.total)") }
        sums += 1
    }
}
