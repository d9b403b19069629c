import CipherStore
import Dispatch
import Foundation
import StorePlatform
import Synchronization
import TestKit

/// Suspending and what it meets: transactions held open, threads that write all the time, stops, forks.
final class SuspensionCommands: Sendable {
    /// A transaction that another thread holds open.
    private final class Hold: Sendable {
        let isOver = DispatchSemaphore(value: 0)
        let ending = Mutex("")
        let hasEnded = DispatchSemaphore(value: 0)
    }

    private let hold = Mutex<Hold?>(nil)
    private let isLoaded = Atomic<Bool>(false)
    private let load = DispatchGroup()
    private let commits = Atomic<Int>(0)
    private let interruptions = Atomic<Int>(0)
    private let surprises = Mutex<[String]>([])
    private let migrated = Mutex<SharedStore?>(nil)

    /// Runs a command.
    ///
    /// - Returns: The answer; nil for a command that is not one of these.
    func run(_ command: String, _ arguments: [String], _ store: SharedStore?) throws -> String? {
        let number = arguments.first.flatMap { Int($0) } ?? 0
        switch (command, store) {
        case ("suspend", let store?): return suspend(store)
        case ("resume", let store?):
            store.resume()
            return ""
        case ("hold", let store?): return try hold(store, writes: arguments.first != "reading")
        case ("let-go", _): return letGo()
        case ("load", let store?):
            start(store, threads: number)
            return ""
        case ("unload", _): return stop()
        case ("job-control", _):
            try JobControlSuspension.begin()
            return ""
        case ("migrate-long", _): return try migrate(arguments)
        case ("fork-and-read", let store?): return Forks.answer { try "\(store.read { try $0.tableExists("mark") })" }
        case ("fork-and-write", let store?): return Forks.answer { try "\(store.write { $0.changesCount })" }
        case ("fork-inside-write", let store?):
            return try store.write { db in
                Forks.answer {
                    try db.execute(sql: "INSERT INTO mark (process, text) VALUES (0, 'child')")
                    return "written"
                }
            }
        case ("fork-and-close", let store?): return Forks.answer { try "\(store.close())" }
        default: return nil
        }
    }

    /// `migrate-long PATH KEY MARKER` opens a store by a migration of some seconds, which makes a file when it begins.
    private func migrate(_ words: [String]) throws -> String {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("long") { db in
            try Data().write(to: URL(fileURLWithPath: words[2]))
            let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000)"
            try db.execute(sql: "CREATE TABLE long AS \(numbers) SELECT COUNT(*) AS count FROM n")
        }
        let store = try SharedStore.open(at: words[0], unlockedBy: TestKeys.source(words[1]), migrator: migrator)
        migrated.withLock { $0 = store }
        return ""
    }

    private func suspend(_ store: SharedStore) -> String {
        let result = Mutex<SuspensionReport?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        Task {
            let report = await store.suspend(deadline: .seconds(10))
            result.withLock { $0 = report }
            isDone.signal()
        }
        isDone.wait()
        guard let report = result.withLock({ $0 }) else { return "nothing" }
        let state = report.isReleased ? "released" : "held"
        let lease = report.heldLocks.contains(.lease) ? "lease" : "no-lease"
        return "\(state) \(report.proof) \(lease) \(Int(report.duration / .microseconds(1)))"
    }

    // MARK: A transaction that stays open

    private func hold(_ store: SharedStore, writes: Bool) throws -> String {
        let new = Hold()
        let isOpen = DispatchSemaphore(value: 0)
        hold.withLock { $0 = new }
        Thread.detachNewThread {
            do {
                if writes {
                    try store.write { db in
                        try db.execute(sql: "INSERT INTO mark (process, text) VALUES (0, 'held')")
                        isOpen.signal()
                        new.isOver.wait()
                        try db.execute(sql: "INSERT INTO mark (process, text) VALUES (0, 'held')")
                    }
                } else {
                    try store.read { db in
                        _ = try db.tableExists("mark")
                        isOpen.signal()
                        new.isOver.wait()
                        _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark")
                    }
                }
                new.ending.withLock { $0 = "ended" }
            } catch {
                new.ending.withLock { $0 = "\(error)" }
            }
            isOpen.signal()
            new.hasEnded.signal()
        }
        isOpen.wait()
        return "held"
    }

    private func letGo() -> String {
        guard let held = hold.withLock({ $0.take() }) else { return "nothing" }
        held.isOver.signal()
        held.hasEnded.wait()
        return held.ending.withLock { $0 }
    }

    // MARK: Threads that write all the time

    private func start(_ store: SharedStore, threads: Int) {
        isLoaded.store(true, ordering: .sequentiallyConsistent)
        for thread in 0..<threads {
            load.enter()
            Thread.detachNewThread { [self] in
                defer { load.leave() }
                while isLoaded.load(ordering: .relaxed) { write(store, thread) }
            }
        }
    }

    private func write(_ store: SharedStore, _ thread: Int) {
        do {
            try store.write { db in
                for _ in 0..<3 {
                    try db.execute(sql: "INSERT INTO mark (process, text) VALUES (?, 'load')", arguments: [thread])
                }
            }
            commits.wrappingAdd(1, ordering: .relaxed)
        } catch let error as DatabaseError where error.isInterruptionError {
            interruptions.wrappingAdd(1, ordering: .relaxed)
            CurrentThread.pause(microseconds: 100)
        } catch {
            surprises.withLock { $0.append("\(error)") }
        }
    }

    private func stop() -> String {
        isLoaded.store(false, ordering: .sequentiallyConsistent)
        load.wait()
        let surprises = surprises.withLock { $0 }
        return "\(commits.load(ordering: .relaxed)) \(interruptions.load(ordering: .relaxed)) \(surprises.first ?? "-")"
    }
}

/// The findings of a forked child.
enum Forks {
    /// Runs a body in a child that is forked without starting a program.
    ///
    /// - Returns: What the body returned there, or its error.
    static func answer(_ body: () throws -> String) -> String {
        let text = ForkedChild.run {
            do { return try body() } catch { return "\(error)" }
        }
        return text ?? "the child died"
    }
}
