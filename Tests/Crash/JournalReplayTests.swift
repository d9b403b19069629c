import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Power failures after each system call with which a rotation is recorded in the sidecar.
@Suite(.serialized) struct JournalReplayTests {
    private let folder = TemporaryFolder()
    private let seed = Seed()
    private var path: String { folder.path("app.db") }

    /// The calls, and their number after each entry.
    private func record(_ kind: JournalCase, _ entries: [String]) throws -> (calls: [SystemCallLog.Call], ends: [Int]) {
        let logs = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(logs.path("calls"))") == "ok")
        var ends: [Int] = []
        for command in ["journal-make \(path) \(kind.rawValue)"]
            + entries.map({ "journal \(path) \(kind.rawValue) \($0)" })
        {
            #expect(actor.ask(command)?.hasPrefix("ok") == true, "\(command)")
            ends.append(try SystemCallLog(contentsOf: logs.path("calls")).calls.count)
        }
        actor.end()
        return (try SystemCallLog(contentsOf: logs.path("calls")).calls, ends)
    }

    @Test(
        "after a power cut at any moment of a rotation the sidecar leads to exactly one epoch, with all of its keys",
        arguments: JournalCase.allCases, [0, 0.5, 0.9])
    func cutAnywhere(kind: JournalCase, keeping likelihood: Double) throws {
        var numbers = seed.numbers(Int(likelihood * 10))
        for entries in [["begin", "switch", "complete"], ["begin", "abandon"]] {
            try FileManager.default.contentsOfDirectory(atPath: folder.url.path).forEach {
                try FileManager.default.removeItem(atPath: folder.path($0))
            }
            let (calls, ends) = try record(kind, entries)
            // `make test` takes one call in so many, the cases different ones.
            let first = ends[0] + Sweep.first(oneIn: 7, offset: Int(likelihood * 5))
            for count in stride(from: first, through: calls.count, by: Sweep.stride(7)) {
                let disk = TemporaryFolder()
                try PowerCut(after: calls[..<count]).restore(
                    from: folder.url.path, to: disk.url.path, keeping: likelihood, ignoring: ["-lock"], using: &numbers)
                // The switch takes effect with its announcement; an acknowledged entry is durable.
                let isSwitched = entries.count == 3 && count >= ends[2]
                let mayBeSwitched = entries.count == 3 && count > ends[1]
                let problems = problems(kind, disk, expecting: isSwitched ? [2] : mayBeSwitched ? [1, 2] : [1])
                #expect(problems.isEmpty, "\(seed) \(entries) after call \(count) of \(calls.count): \(problems)")
            }
            print("power cuts of \(kind) \(entries.last ?? ""): \(calls.count - ends[0] + 1), \(likelihood) kept")
        }
    }

    private func problems(_ kind: JournalCase, _ disk: TemporaryFolder, expecting epochs: Set<UInt64>) -> [String] {
        let path = disk.path("app.db")
        do {
            var problems = try backupAlone(kind, disk)
            try recover(kind, path)
            let opened = try (UInt8(0)...8).map { ($0, try epoch(path, openedBy: $0)) }.filter { $0.1 != nil }
            let found = Set(opened.compactMap(\.1))
            if found.count != 1 || !found.isSubset(of: epochs) {
                problems.append("epochs \(found) instead of \(epochs)")
            }
            let keys = found == [2] ? kind.after : kind.before
            if Set(opened.map(\.0)) != keys { problems.append("opened by \(opened)") }
            let copies = SidecarFiles(databasePath: path).read()
            if copies.main.parsed?.claimed.state != .ready { problems.append("not ready") }
            if copies.main.parsed?.bytes != copies.backup.parsed?.bytes { problems.append("different copies") }
            return problems
        } catch {
            return ["\(error)"]
        }
    }

    /// Recovers as the next opener does, with the key that unlocks the whole rotation or with the new key.
    private func recover(_ kind: JournalCase, _ path: String) throws {
        let file = try LockFile(path: path + "-lock", likeFile: nil)
        let locks = try [LockByte.opening, .admin].map { try file.lock($0, .exclusive, deadline: .now + .seconds(5)) }
        defer { for lock in locks { lock.release() } }
        for key in kind == .direct ? [0, 7] : [UInt8(0)] {
            let journal = try JournalCase.journal(path, key: key)
            do {
                guard let rotation = try journal.rotation() else { continue }
                try journal.settle(rotation)
                if rotation.sidecar.state == .rotating { try journal.abandon() } else { try journal.complete() }
            } catch let error as StoreError where error == .wrongKey || key == 7 && error == .rotationPending {
                // The new key alone cannot undo the rotation, and the old one opens nothing after the switch.
            }
        }
        // After that, one copy may be older than the other. An opening repairs it.
        let files = SidecarFiles(databasePath: path)
        for key in kind.before.union(kind.after) {
            let material = try JournalCase.material(key)
            guard let choice = try? files.choose(files.read(), unlock: { try material.unlock($0) }) else { continue }
            try files.repair(choice, keyOpensDatabase: false)
        }
    }

    private func epoch(_ path: String, openedBy key: UInt8) throws -> UInt64? {
        let material = try JournalCase.material(key)
        let files = SidecarFiles(databasePath: path)
        do {
            return try files.choose(files.read(), allowsSwitching: true) { try material.unlock($0) }?.sidecar.epoch
        } catch let error as StoreError where error == .wrongKey || error == .rotationPending {
            return nil
        }
    }

    private func backupAlone(_ kind: JournalCase, _ disk: TemporaryFolder) throws -> [String] {
        let other = TemporaryFolder()
        try FileManager.default.copyItem(
            atPath: disk.path("app.db-sidecar.bak"), toPath: other.path("app.db-sidecar.bak"))
        let opens = try [UInt8(0), 7].contains { try epoch(other.path("app.db"), openedBy: $0) != nil }
        return opens ? [] : ["the backup alone opens nothing"]
    }
}
