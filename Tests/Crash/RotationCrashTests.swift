import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// Rotations with kills, failing system calls and power failures.
///
/// `CIPHERSTORE_KILLS` is the number of random kills; `make soak` makes it 10,000.
@Suite(.serialized) struct RotationCrashTests {
    private let seed = Seed()

    private static var randomKills: Int {
        ProcessInfo.processInfo.environment["CIPHERSTORE_KILLS"].flatMap { Int($0) } ?? 16
    }

    /// Whether a notice reports that an opening completed or undid a rotation.
    static func isTraceOfInterruption(_ notice: String) -> Bool {
        [": An interrupted rotation to epoch", ": An interrupted rotation was completed", ": The copy \""].contains {
            notice.contains($0)
        }
    }

    /// A store with the bank's accounts, a process that writes to it continuously, and one that rotates it.
    private final class Scene {
        let folder = TemporaryFolder()
        let peer: ActorProcess
        var rotator: ActorProcess
        var path: String { folder.path("app.db") }
        private var acknowledgements: String { folder.path("acknowledged") }

        init(peerIsBusy: Bool = true) throws {
            (peer, rotator) = (try ActorProcess(), try ActorProcess())
            #expect(peer.ask("open \(path) raw 30")?.hasPrefix("ok") == true)
            #expect(peer.ask("bank-fill \(Bank.accounts) \(Bank.balance)") == "ok")
            #expect(peer.ask("fill 300000") == "ok")
            #expect(peer.ask("checkpoint")?.hasPrefix("ok") == true)
            try openRotator()
            if peerIsBusy { #expect(peer.ask("load-write \(acknowledgements)") == "ok") }
        }

        func openRotator() throws {
            rotator = try ActorProcess()
            let answer = rotator.ask("open \(path) raw 30") ?? "died"
            #expect(answer.hasPrefix("ok"), "\(answer)")
        }

        /// Temporary files that were not renamed.
        func leftovers() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.url.path).filter { $0.contains(".tmp-") }
        }

        /// Rotates the store once.
        func timeOfRotation() throws -> Duration {
            let start = ContinuousClock.now
            #expect(rotator.ask("rotate")?.hasPrefix("ok ") == true)
            return .now - start
        }

        var acknowledged: Int { Bank.length(acknowledgements) }

        /// Expects that the peer continues after the rotator's end: it writes, and nothing has failed.
        func expectPeerGoesOn(_ comment: Comment) {
            let before = acknowledged
            #expect(waitUntil { acknowledged > before + 5 }, comment)
            let answer = peer.ask("load-end") ?? "died"
            #expect(answer.split(separator: " ").dropFirst(2).first == "0", "\(comment): \(answer)")
        }

        /// Ends all processes. Expects that the next opener finds one epoch, all rows and every page.
        func expectSound(_ comment: Comment) {
            peer.end()
            rotator.end()
            let acknowledged = acknowledged
            let problems = StoreProof.problems(path) { db in
                let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text = 'busy'") ?? 0
                let sum = try Int.fetchOne(db, sql: "SELECT SUM(balance) FROM account") ?? 0
                return (rows == acknowledged ? [] : ["\(rows) rows of \(acknowledged)"])
                    + (sum == Bank.total ? [] : ["a sum of \(sum)"])
            }
            // A notice that a rotation was completed or undone is no problem.
            let found = problems.filter { !RotationCrashTests.isTraceOfInterruption($0) }
            #expect(found.isEmpty, "\(comment): \(found)")
            #expect(!FileManager.default.fileExists(atPath: path + "-rotating"), comment)
        }
    }

    @Test(
        "a rotation killed at any named place leaves one epoch, every row, and a peer that goes on",
        arguments: Sweep.sample(CrashPoint.ofRotation, oneIn: 2))
    func atEveryPlace(_ point: CrashPoint) throws {
        let scene = try Scene()
        #expect(scene.rotator.ask("die-at \(point.rawValue) 0") == "ok")
        #expect(scene.rotator.ask("rotate") == nil, "the process did not pass \(point)")
        #expect(scene.rotator.diedBySignal())
        scene.expectPeerGoesOn("\(point)")
        // The next rotation is not affected.
        try scene.openRotator()
        #expect(scene.rotator.ask("rotate")?.hasPrefix("ok ") == true)
        scene.expectSound("\(point)")
    }

    @Test(
        "a rotation killed at any named place is finished or undone by the next opener when nobody else is there",
        arguments: CrashPoint.ofRotation)
    func alone(_ point: CrashPoint) throws {
        let scene = try Scene(peerIsBusy: false)
        #expect(scene.peer.ask("close") == "ok")
        #expect(scene.rotator.ask("die-at \(point.rawValue) 0") == "ok")
        #expect(scene.rotator.ask("rotate") == nil, "the process did not pass \(point)")
        scene.expectSound("\(point)")
    }

    @Test("a connection opened before a cut switch was completed, that reads behind it, fails and harms nothing")
    func latecomer() throws {
        let scene = try Scene(peerIsBusy: false)
        #expect(scene.rotator.ask("die-at \(CrashPoint.rotationSwitchingWritten.rawValue) 0") == "ok")
        #expect(scene.peer.ask("stock-key") == "ok")
        #expect(scene.rotator.ask("rotate") == nil)
        #expect(scene.peer.ask("stock-open \(scene.path)") == "ok")
        try scene.openRotator()
        #expect(scene.rotator.ask("epoch") == "ok 2")
        #expect(scene.rotator.ask("mark 3") == "ok")
        let refusal = scene.peer.ask("stock-insert late") ?? "died"
        #expect(refusal.hasPrefix("error SQLite-26"), "\(refusal)")
        #expect(scene.peer.ask("stock-close") == "ok")
        #expect(scene.rotator.ask("mark 3") == "ok")
        scene.expectSound("a latecomer")
    }

    enum LostCopy: String, CaseIterable, Sendable {
        case removed, cut, flipped

        func spoil(_ path: String) throws {
            if self == .removed { return try FileManager.default.removeItem(atPath: path) }
            let file = try FileHandle(forUpdating: URL(filePath: path))
            let length = try file.seekToEnd()
            if self == .cut {
                try file.truncate(atOffset: length - 4096)
            } else {
                try file.seek(toOffset: length / 2)
                let byte = try file.read(upToCount: 1)?.first ?? 0
                try file.seek(toOffset: length / 2)
                try file.write(contentsOf: [byte ^ 1])
            }
            try file.close()
        }
    }

    // Such a store once could not be opened, although its former database, WAL and key were unchanged.
    @Test(
        "a rotation killed when the switch is announced, whose copy is lost, is undone by the next opener with every row",
        arguments: LostCopy.allCases)
    func lostCopy(_ how: LostCopy) throws {
        let scene = try Scene(peerIsBusy: false)
        #expect(scene.peer.ask("mark 7") == "ok")
        #expect(scene.peer.ask("close") == "ok")
        #expect(scene.rotator.ask("die-at \(CrashPoint.rotationSwitchingWritten.rawValue) 0") == "ok")
        #expect(scene.rotator.ask("rotate") == nil)
        try how.spoil(scene.path + "-rotating")
        scene.expectSound("\(how)")
        let next = try ActorProcess()
        #expect(next.ask("open \(scene.path) raw")?.hasPrefix("ok") == true)
        #expect(next.ask("epoch") == "ok 1")
        #expect(next.ask("count 6") == "ok 1")
    }

    @Test(
        "where the log was emptied for a copy that is lost then, opening refuses and changes nothing until it is back",
        arguments: LostCopy.allCases)
    func lostCopyAndLog(_ how: LostCopy) throws {
        let scene = try Scene(peerIsBusy: false)
        #expect(scene.peer.ask("close") == "ok")
        #expect(scene.rotator.ask("die-at \(CrashPoint.rotationWALReplaced.rawValue) 0") == "ok")
        #expect(scene.rotator.ask("rotate") == nil)
        let copy = try Data(contentsOf: URL(filePath: scene.path + "-rotating"))
        try how.spoil(scene.path + "-rotating")
        let before = FolderSnapshot(of: scene.folder)
        let error = #expect(throws: StoreError.self) {
            try SharedStore.open(at: scene.path, unlockedBy: TestKeys.source("raw"))
        }
        #expect(error?.code == .rotationPending && error?.why.contains("the WAL was emptied") == true)
        #expect(before.changes(until: FolderSnapshot(of: scene.folder)).filter { !$0.hasSuffix("-lock") } == [])
        try copy.write(to: URL(filePath: scene.path + "-rotating"))
        scene.expectSound("\(how)")
    }

    @Test("a rotation killed when the empty log has no name yet leaves no file of it behind the next opening")
    func namelessLog() throws {
        let scene = try Scene(peerIsBusy: false)
        #expect(scene.peer.ask("close") == "ok")
        // The writes before it are both copies of the sidecar, at the beginning of the rotation and of the switch.
        #expect(scene.rotator.ask("die-at \(CrashPoint.temporaryFileWritten.rawValue) 4") == "ok")
        #expect(scene.rotator.ask("rotate") == nil)
        #expect(try scene.leftovers().map { $0.hasPrefix("app.db-wal.tmp-") } == [true])
        scene.expectSound("the log's name")
        #expect(try scene.leftovers() == [])
    }

    @Test("a rotation killed at a random moment leaves one epoch, every row, and a peer that goes on")
    func atRandom() throws {
        var numbers = seed.numbers(0)
        let scene = try Scene()
        var rotation = Duration.zero
        for kill in 1...max(1, Self.randomKills) {
            // Kills are spread over the whole of a rotation, which takes longer after more writes of the peer.
            if kill % 25 == 1 { rotation = try scene.timeOfRotation() }
            scene.rotator.send("rotate-for-ever")
            scene.rotator.kill(after: rotation * Double.random(in: 0..<1.2, using: &numbers))
            #expect(scene.rotator.remainingAnswers().isEmpty, "\(seed) kill \(kill)")
            let before = scene.acknowledged
            #expect(waitUntil { scene.acknowledged > before }, "\(seed) kill \(kill): the peer stands still")
            try scene.openRotator()
        }
        let epoch = scene.rotator.ask("epoch") ?? "died"
        scene.expectPeerGoesOn("\(seed)")
        scene.expectSound("\(seed)")
        print("rotation kills: \(seed), \(Self.randomKills) at random, \(epoch) rotations and openings")
    }

    @Test("a writer killed at any write to the log while a store is rotated loses nothing that it acknowledged")
    func killedWriter() throws {
        for number in [1, 2, 3, 5, 8] {
            let scene = try Scene()
            let writer = try ActorProcess()
            #expect(writer.ask("open \(scene.path) raw 30")?.hasPrefix("ok") == true)
            scene.rotator.send("rotate")
            #expect(writer.ask("die-at-call \(scene.path)-wal write \(number * 3)") == "ok")
            _ = writer.ask("mark 1000")
            let answer = scene.rotator.answer() ?? "died"
            #expect(answer.hasPrefix("ok 1 2"), "\(answer)")
            scene.expectPeerGoesOn("write \(number)")
            scene.expectSound("write \(number)")
        }
    }

    @Test(
        "a call to the system that fails in a rotation leaves the store as it was, or the rotation is completed",
        arguments: ["ENOSPC", "EIO"])
    func failingCalls(reason: String) throws {
        let scene = try Scene(peerIsBusy: false)
        var epoch = 1
        var number = 0
        while true {
            number += 1
            #expect(scene.rotator.ask("fail-call \(scene.path)-rotating* all \(number) once \(reason)") == "ok")
            let answer = scene.rotator.ask("rotate") ?? "died"
            let calls = scene.rotator.ask("calls") ?? ""
            #expect(scene.rotator.ask("end-faults") == "ok")
            #expect(scene.peer.ask("mark 1") == "ok", "call \(number)")
            // A rotation that fails after the switch was announced is completed by the stores that reopen.
            let told = Int((scene.peer.ask("epoch") ?? "").dropFirst(3)) ?? 0
            let isCompleted = told == epoch + 1
            #expect(answer.hasPrefix("ok") ? isCompleted : isCompleted || told == epoch, "call \(number): \(answer)")
            #expect(!FileManager.default.fileExists(atPath: scene.path + "-rotating"), "call \(number)")
            epoch = told
            if answer.hasPrefix("ok"), let count = Int(calls.dropFirst(3)), count < number { break }
        }
        #expect(number > 5)
        scene.expectSound("\(reason)")
    }

    /// Rows that are committed after the copy has all pages, so that the rest is carried over in the pause.
    private static let lateRows = 5

    /// The calls of a process that makes a store and rotates it.
    private func record(_ folder: TemporaryFolder) throws -> [SystemCallLog.Call] {
        let logs = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(logs.path("calls"))") == "ok")
        for command in [
            "open \(folder.path("app.db")) raw", "mark 5", "fill 20000", "checkpoint",
            "mark-at \(CrashPoint.rotationDeltaRound.rawValue) \(Self.lateRows)", "rotate", "mark 1",
        ] {
            let answer = actor.ask(command) ?? "died"
            #expect(answer.hasPrefix("ok"), "\(command): \(answer)")
        }
        actor.end()
        return try SystemCallLog(contentsOf: logs.path("calls")).calls
    }

    // A disk that keeps the order of names hides a missing fsync of the folder: the next version of the sidecar makes
    // the new database's name durable as well. The test checks the order that POSIX requires.
    @Test("before the copy takes its place it, the switch and the empty log are durable, and then its name is")
    func orderOfSwitch() throws {
        let (folder, disk) = (TemporaryFolder(), TemporaryFolder())
        let path = folder.path("app.db")
        let calls = try record(folder)
        let move = try #require(calls.firstIndex(of: .rename(path: path + "-rotating", newPath: path)))
        // Only durable data is restored.
        var numbers = seed.numbers(0)
        try PowerCut(after: calls[..<move]).restore(
            from: folder.url.path, to: disk.url.path, keeping: 0, ignoring: ["-shm"], using: &numbers)
        #expect(try Files.byteCount(disk.path("app.db-wal")) ?? 0 == 0)
        let sidecars = SidecarFiles(databasePath: disk.path("app.db")).read()
        for copy in SidecarCopy.allCases { #expect(sidecars[copy].parsed?.claimed.state == .switching, "\(copy)") }
        let length = try #require(sidecars.main.parsed?.claimed.pending?.pages)
        #expect(try Files.byteCount(disk.path("app.db-rotating")) == Int(length) * 4096)
        #expect(!PowerCut(after: calls[..<move]).hasUnsaved(path + "-rotating"))
        guard case .synchronize(_, folder.url.path) = calls[move + 1] else {
            Issue.record("\(calls[move + 1]) comes before the folder is synchronized")
            return
        }
    }

    // The sidecar once announced a switch whose copy had no durable name. On a disk that writes a folder's changes in
    // any order, the switch could then not be completed.
    @Test("before the sidecar tells of the switch the name of the copy is durable")
    func copyBeforeSwitch() throws {
        let (folder, disk) = (TemporaryFolder(), TemporaryFolder())
        let path = folder.path("app.db")
        let calls = try record(folder)
        let move = try #require(calls.firstIndex(of: .rename(path: path + "-rotating", newPath: path)))
        let switching = try #require(
            calls[..<move].lastIndex { call in
                if case .rename(_, path + "-sidecar") = call { true } else { false }
            })
        var numbers = seed.numbers(1)
        let cut = PowerCut(after: calls[..<switching])
        try cut.restore(from: folder.url.path, to: disk.url.path, keeping: 0, ignoring: ["-shm"], using: &numbers)
        let sidecar = try #require(SidecarFiles(databasePath: disk.path("app.db")).read().main.parsed?.claimed)
        #expect(sidecar.state == .rotating)
        #expect(try Files.byteCount(disk.path("app.db-rotating")) ?? 0 > 0)
        #expect(!cut.hasUnsaved(path + "-rotating"))
    }

    @Test(
        "after a power cut at any moment of a rotation the store opens without a hand, under one key, with every row",
        arguments: [(0, PowerCut.NameOrder.kept), (0.5, .kept), (0.5, .lost)])
    func powerCut(keeping likelihood: Double, names: PowerCut.NameOrder) throws {
        let folder = TemporaryFolder()
        let calls = try record(folder)
        var numbers = seed.numbers(Int(likelihood * 10) + (names == .lost ? 1 : 0))
        let move = try #require(
            calls.firstIndex(of: .rename(path: folder.path("app.db-rotating"), newPath: folder.path("app.db"))))
        // From the creation of the copy on. Other tests cover the calls before.
        let start = calls.firstIndex { call in
            if case .create(_, let path) = call { path.hasSuffix("-rotating") } else { false }
        }
        // `make test` takes one call in so many, the cases different ones.
        let ordinal = likelihood == 0 ? 0 : names == .kept ? 1 : 2
        let first = try #require(start) + Sweep.first(oneIn: 6, offset: 2 * ordinal)
        for count in stride(from: first, through: calls.count, by: Sweep.stride(6)) {
            let disk = TemporaryFolder()
            try PowerCut(after: calls[..<count]).restore(
                from: folder.url.path, to: disk.url.path, keeping: likelihood, names: names, ignoring: ["-shm"],
                using: &numbers)
            let problems = StoreProof.problems(disk.path("app.db"), afterPowerCut: true) { db in
                // The commits before a completed checkpoint are durable, and so are the commits before the switch
                // begins.
                let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") ?? 0
                return rows >= 7 + (count >= move ? Self.lateRows : 0) ? [] : ["\(rows) rows"]
            }.filter { !Self.isTraceOfInterruption($0) }
            #expect(problems.isEmpty, "\(seed) \(likelihood) \(names) after call \(count): \(problems)")
        }
        print(
            "power cuts of a rotation: \(seed), \(calls.count - (start ?? 0) + 1) with \(likelihood) kept, order \(names)"
        )
    }
}
