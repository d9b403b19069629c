import CipherStore
import Foundation
import TestKit
import Testing

/// Power failures after each system call: data that was not made durable is lost, or exists in part.
///
/// The calls of one process are recorded by `FaultShim` and replayed up to each of them. In WAL mode with
/// `synchronous=NORMAL` a power failure may lose the last commits, but never a part of one. The commits before a
/// completed checkpoint stay.
@Suite(.serialized) struct PowerCutTests {
    private let folder = TemporaryFolder()
    private let seed = Seed()
    private var path: String { folder.path("app.db") }

    private static let work = [
        "open PATH raw", "mark 3", "fill 20000", "checkpoint", "mark 3", "fill 20000", "checkpoint", "mark 1", "close",
        "open PATH raw", "mark 1", "checkpoint", "close",
    ]

    private func record() throws -> SystemCallLog {
        let logs = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(logs.path("calls"))") == "ok")
        for command in Self.work {
            #expect(actor.ask(command.replacingOccurrences(of: "PATH", with: path))?.hasPrefix("ok") == true)
        }
        actor.end()
        return try SystemCallLog(contentsOf: logs.path("calls"))
    }

    @Test(
        "after a power cut at any moment the store opens without a hand and is whole, whatever of the unsaved is there",
        arguments: [0, 0.5, 0.9])
    func cutAnywhere(keeping likelihood: Double) throws {
        let calls = try record().calls
        #expect(calls.count > 60)
        var numbers = seed.numbers(Int(likelihood * 10))
        // `make test` takes one call in so many, the cases different ones.
        let first = Sweep.first(oneIn: 7, offset: Int(likelihood * 5))
        for count in stride(from: first, through: calls.count, by: Sweep.stride(7)) {
            let disk = TemporaryFolder()
            try PowerCut(after: calls[..<count]).restore(
                from: folder.url.path, to: disk.url.path, keeping: likelihood, ignoring: ["-shm"], using: &numbers)
            let problems = StoreProof.problems(disk.path("app.db"), afterPowerCut: true)
            #expect(problems.isEmpty, "\(seed) \(likelihood) after call \(count): \(problems)")
        }
        print(
            "power cuts: \(seed), one in \(Sweep.stride(7)) of \(calls.count + 1) with \(likelihood) of the unsaved kept"
        )
    }

    @Test("a checkpoint that was told is there after a power cut, commits behind it included")
    func checkpointIsDurable() throws {
        let logs = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(logs.path("calls"))") == "ok")
        for command in ["open \(path) raw", "mark 25", "checkpoint"] {
            #expect(actor.ask(command)?.hasPrefix("ok") == true)
        }
        let calls = try SystemCallLog(contentsOf: logs.path("calls")).calls
        let disk = TemporaryFolder()
        var numbers = seed.numbers(0)
        try PowerCut(after: calls).restore(
            from: folder.url.path, to: disk.url.path, keeping: 0, ignoring: ["-shm"], using: &numbers)
        let problems = StoreProof.problems(disk.path("app.db"), afterPowerCut: true) { db in
            try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") == 26 ? [] : ["rows are missing"]
        }
        #expect(problems.isEmpty, "\(problems)")
    }

    @Test("a new file that has the number of a removed one leaves the content of that on the disk as it was")
    func numberOfRemovedFile() throws {
        let old = Data("old".utf8)
        let calls: [SystemCallLog.Call] = [
            .create(file: 1, path: "/from/old"), .write(file: 1, offset: 0, bytes: old),
            .synchronize(file: 1, path: "/from/old"), .synchronize(file: 9, path: "/from"),
            .unlink(path: "/from/old"), .create(file: 1, path: "/from/new"),
            .write(file: 1, offset: 0, bytes: Data("new".utf8)), .synchronize(file: 1, path: "/from/new"),
        ]
        let disk = TemporaryFolder()
        var numbers = seed.numbers(0)
        try PowerCut(after: calls).restore(
            from: "/from", to: disk.url.path, keeping: 0, ignoring: [], using: &numbers)
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == ["old"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: disk.path("old"))) == old)
    }

    @Test("a file that takes its place is durable before, and its folder before anything else is done")
    func filesTakeTheirPlaces() throws {
        let calls = try record().calls
        var renames = 0
        for (index, call) in calls.enumerated() {
            let names: (from: String, to: String)
            switch call {
            case .rename(let path, let newPath), .link(let path, let newPath): names = (path, newPath)
            default: continue
            }
            renames += 1
            #expect(isDurable(names.from, before: index, calls), "\(names.from) was not synchronized")
            let next = calls[(index + 1)...].first { call in
                // The temporary name of a linked file is removed first.
                if case .unlink(names.from) = call { return false }
                return true
            }
            guard case .synchronize(_, folder.url.path) = next else {
                Issue.record("\(names.to) took its place, and its folder was not synchronized")
                continue
            }
        }
        #expect(renames >= 5)
    }

    /// Whether all writes to a file were followed by an fsync.
    private func isDurable(_ path: String, before index: Int, _ calls: [SystemCallLog.Call]) -> Bool {
        var file: UInt64?
        var isDurable = false
        for call in calls[..<index] {
            switch call {
            case .create(let created, path): (file, isDurable) = (created, false)
            case .write(let written, _, _) where written == file: isDurable = false
            case .synchronize(let synchronized, _) where synchronized == file: isDurable = true
            default: break
            }
        }
        return isDurable
    }
}
