import CipherStore
import Foundation
import TestKit
import Testing

/// Eight stores commit and sync, by a server and by a folder, while their processes are killed and stopped at random and the
/// server is ended and started. The folder and the server have one store in common.
@Suite(.serialized) struct SyncSoakTests {
    /// `CIPHERSTORE_SYNC_SECONDS`.
    private static let seconds =
        ProcessInfo.processInfo.environment["CIPHERSTORE_SYNC_SECONDS"].flatMap { Int($0) } ?? 8

    @Test("after kills, stops and ends of the server all stores have every acknowledged commit and the same rows")
    func soak() throws {
        let soak = try SyncSoak()
        try soak.work(for: .seconds(Self.seconds))
        try soak.converge()
        try soak.compare()
    }
}

/// The events in one run.
private final class SyncSoak {
    private static let storeCount = 8
    private static let founder = 5

    private struct Failure: Error { let reason: String }

    /// One process of a store: it commits, or it syncs.
    private struct Life {
        let process: ActorProcess
        let store: Int
        let commits: Bool
        let name: String
        /// Has a byte for each thing that it has done.
        let file: String
    }

    private let folder = TemporaryFolder()
    private let seed = Seed()
    private var numbers: RandomNumbers
    private let server: SoakServer
    private let shared: String
    private var lives: [Life] = []
    private var started = 0
    /// The processes that are stopped, until when.
    private var stopped: [Int: ContinuousClock.Instant] = [:]
    private var acknowledged: [(name: String, count: Int)] = []
    private var figures: [String: Int] = [:]

    init() throws {
        numbers = seed.numbers(0)
        shared = folder.path("remote")
        try FileManager.default.createDirectory(atPath: shared, withIntermediateDirectories: true)
        server = try SoakServer(folder)
        // The store with both remotes invites the others.
        let founder = try actor(Self.founder)
        #expect(founder.ask("sync-found \(remotes(of: Self.founder))") == "ok", "\(seed)")
        for store in 0..<Self.storeCount where store != Self.founder {
            let (joiner, file) = (try actor(store), folder.path("invitation-\(store)"))
            #expect(founder.ask("sync-invite \(file) \(remotes(of: store))") == "ok", "\(seed)")
            #expect(joiner.ask("sync-join \(file) \(remotes(of: store))") == "ok", "\(seed)")
            #expect(joiner.ask("close") == "ok")
        }
        #expect(founder.ask("close") == "ok")
    }

    private func path(_ store: Int) -> String { folder.path("\(store).db") }

    /// The first five use the server, the last two the folder, and one between them both.
    private func remotes(of store: Int) -> String {
        switch store {
        case ..<5: server.address
        case 5: server.address + " " + shared
        default: shared
        }
    }

    private func actor(_ store: Int) throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path(store)) raw 60") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(seed) \(answer)")
        return actor
    }

    private func begin(_ store: Int, commits: Bool) throws -> Life {
        started += 1
        let name = "\(store).\(started)"
        let file = folder.path("done-\(name)")
        let process = try actor(store)
        process.send(
            commits
                ? "sync-work \(file) \(name) \(numbers.next() >> 1)" : "sync-for-ever \(file) 300 \(remotes(of: store))"
        )
        return Life(process: process, store: store, commits: commits, name: name, file: file)
    }

    private func length(_ file: String) -> Int {
        (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int).flatMap { $0 } ?? 0
    }

    // MARK: Work

    /// Lets all stores work, and disturbs them until a time has passed.
    func work(for duration: Duration) throws {
        for store in 0..<Self.storeCount {
            for commits in [true, false] { lives.append(try begin(store, commits: commits)) }
        }
        let deadline = ContinuousClock.now + duration
        while ContinuousClock.now < deadline {
            resumeStopped(before: ContinuousClock.now)
            try server.startAgain(before: ContinuousClock.now)
            switch Int.random(in: 0..<20, using: &numbers) {
            case 0:
                let outage = Duration.milliseconds(pause(2000))
                server.stop(atOnce: Bool.random(using: &numbers), until: ContinuousClock.now + outage)
            case 1..<4: server.endConnection()
            case 4..<10: stop(Int.random(in: lives.indices, using: &numbers))
            default: try kill(Int.random(in: lives.indices, using: &numbers))
            }
            try findErrors()
        }
        try server.startAgain(before: nil)
        resumeStopped(before: nil)
        for life in lives { end(life) }
        #expect(acknowledged.count > Self.storeCount && figure("commits") > 0 && figure("syncs") > 0, "\(seed)")
    }

    private func pause(_ most: Int) -> Int { Int.random(in: 0...most, using: &numbers) }

    private func note(_ name: String, _ count: Int = 1) { figures[name, default: 0] += count }

    private func figure(_ name: String) -> Int { figures[name] ?? 0 }

    private func stop(_ index: Int) {
        guard stopped[index] == nil else { return }
        lives[index].process.stop()
        stopped[index] = ContinuousClock.now + .milliseconds(pause(3000))
        note("stops")
    }

    private func resumeStopped(before time: ContinuousClock.Instant?) {
        for (index, until) in stopped where time.map({ until <= $0 }) ?? true {
            lives[index].process.go()
            stopped[index] = nil
        }
    }

    private func kill(_ index: Int) throws {
        lives[index].process.kill(within: .milliseconds(400))
        stopped[index] = nil
        end(lives[index])
        note("kills")
        lives[index] = try begin(lives[index].store, commits: lives[index].commits)
    }

    /// A process that has answered has met an error that should not be.
    private func findErrors() throws {
        for life in lives where life.process.hasAnswered {
            throw Failure(reason: "\(seed) \(life.name): \(life.process.answer() ?? "died")")
        }
    }

    /// Ends a process, and notes what it has done.
    private func end(_ life: Life) {
        life.process.kill()
        let answers = life.process.remainingAnswers()
        #expect(answers.isEmpty, "\(seed) \(life.name): \(answers)")
        let count = length(life.file)
        if life.commits { acknowledged.append((life.name, count)) }
        note(life.commits ? "commits" : "syncs", count)
        try? FileManager.default.removeItem(atPath: life.file)
    }

    // MARK: The end

    /// Lets each store sync, until all have everything and nothing is new.
    func converge() throws {
        var (answers, former) = ([String](), [String]())
        // The store with both remotes comes last, when each of them has what its other stores have.
        let order = (0..<Self.storeCount).filter { $0 != Self.founder } + [Self.founder]
        let processes = try order.map { ($0, try actor($0)) }
        defer { for (_, process) in processes { #expect(process.ask("close") == "ok") } }
        for _ in 0..<8 {
            (former, answers) = (answers, [])
            for (store, process) in processes {
                answers.append(process.ask("sync \(remotes(of: store))") ?? "died")
            }
            if Set(answers).count == 1, answers == former, answers[0].hasSuffix("in-sync") { return }
        }
        Issue.record("\(seed) \(answers)")
    }

    /// Compares all stores: rows, digests, acknowledged commits; each must be whole.
    func compare() throws {
        var states: [[String]] = []
        for store in 0..<Self.storeCount {
            let problems = StoreProof.problems(path(store)) { db in
                let sql = """
                    SELECT 'head ' || uuid FROM cipherstore_repository_head
                    UNION ALL SELECT 'item ' || id || n FROM item UNION ALL SELECT 'tally ' || id || last FROM tally
                    UNION ALL SELECT 'slot ' || id || name || n FROM slot
                    UNION ALL SELECT 'part ' || id || slot || item FROM part ORDER BY 1
                    """
                states.append(try String.fetchAll(db, sql: sql))
                note("joined commits", try commits(db))
                return try missing(db)
                    + Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { "foreign key: \($0)" }
            }
            #expect(problems.isEmpty, "\(seed) \(store): \(problems)")
        }
        #expect(states.count == Self.storeCount && Set(states).count == 1, "\(seed): \(differences(states))")
        figures["joined commits"] = figure("joined commits") / Self.storeCount
        figures["items"] = states.first?.count { $0.hasPrefix("item ") }
        figures.merge(server.figures) { $1 }
        let parts = figures.sorted { $0.key < $1.key }.map { "\($1) \($0)" }
        print("soak of sync, \(seed): \(parts.joined(separator: ", "))")
    }

    /// The parts that only some of the stores have.
    private func differences(_ states: [[String]]) -> [String] {
        let common = states.dropFirst().reduce(Set(states.first ?? [])) { $0.intersection($1) }
        return states.enumerated().flatMap { store, lines in
            lines.filter { !common.contains($0) }.prefix(5).map { "\(store): \($0)" }
        }
    }

    private func commits(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM cipherstore_repository_commit") ?? 0
    }

    /// The lives of which a store has fewer items than they have acknowledged, or more than one beyond.
    private func missing(_ db: Database) throws -> [String] {
        try acknowledged.compactMap { name, told in
            let count = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM item WHERE id GLOB ?", arguments: [name + "-*"])
            return (told...told + 1).contains(count ?? -1) ? nil : "\(name): \(told) told, \(count ?? -1) there"
        }
    }
}

/// A PostgreSQL server of its own that is ended and started; a second folder in a build without.
private final class SoakServer {
    let address: String
    private(set) var figures: [String: Int] = [:]

    #if PostgreSQL
        private let server: PostgresServer
        private let database: String
        /// When it is started again.
        private var stoppedUntil: ContinuousClock.Instant?

        init(_ folder: TemporaryFolder) throws {
            server = try PostgresServer()
            database = try server.makeDatabase()
            address = server.url(database)
        }

        /// Ends the server: its connections get a word, or none.
        func stop(atOnce: Bool, until time: ContinuousClock.Instant) {
            guard stoppedUntil == nil else { return }
            server.stop(atOnce: atOnce)
            stoppedUntil = time
            figures["ends of the server", default: 0] += 1
        }

        func startAgain(before time: ContinuousClock.Instant?) throws {
            guard let until = stoppedUntil, time.map({ until <= $0 }) ?? true else { return }
            server.start()
            stoppedUntil = nil
        }

        /// Ends one connection, whatever it is doing.
        func endConnection() {
            guard stoppedUntil == nil else { return }
            let sql = """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = '\(database)' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
                """
            let answer = try? server.output(of: "psql", ["-At", "-c", sql, "postgres"])
            if answer?.hasPrefix("t") == true { figures["ended connections", default: 0] += 1 }
        }
    #else
        init(_ folder: TemporaryFolder) throws {
            address = folder.path("server")
            try FileManager.default.createDirectory(atPath: address, withIntermediateDirectories: true)
        }

        func stop(atOnce: Bool, until time: ContinuousClock.Instant) {}
        func startAgain(before time: ContinuousClock.Instant?) throws {}
        func endConnection() {}
    #endif
}
