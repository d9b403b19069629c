import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

/// A remote of which one call fails: before it has an effect, or after it, so that its answer is lost.
private final class FailingOnceRemote: ObjectStore {
    struct Failure: Error {}

    private let remote: FolderStore
    private let failAt: Int
    private let isAfter: Bool
    private let calls = Atomic(0)

    init(_ remote: FolderStore, failAt: Int, isAfter: Bool) {
        (self.remote, self.failAt, self.isAfter) = (remote, failAt, isAfter)
    }

    var description: String { remote.description }
    var callCount: Int { calls.load(ordering: .relaxed) }

    private func call<T>(_ body: () throws -> T) throws -> T {
        let fails = calls.add(1, ordering: .relaxed).newValue == failAt
        if fails, !isAfter { throw Failure() }
        let result = try body()
        if fails { throw Failure() }
        return result
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try call { try remote.put(name, bytes) } }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try call { try remote.get(name, limitBytes: limitBytes) }
    }
    func list(_ prefix: String) throws -> [ListedObject] { try call { try remote.list(prefix) } }
    func delete(_ name: String) throws { try call { try remote.delete(name) } }
}

/// Two devices and a folder, copied for each case.
private struct FaultScene {
    static let sql = Device.sql
    let path: String
    let a: Device
    let b: Device
    let folder: FolderStore

    init(_ path: String) throws {
        self.path = path
        (a, b) = (try Device(path + "/a.db", sliceRows: 4), try Device(path + "/b.db", sliceRows: 4))
        folder = FolderStore(path: path + "/remote", repository: try a.repository.store().repository)
    }

    static func start(_ path: String) throws {
        try FileManager.default.createDirectory(atPath: path + "/remote", withIntermediateDirectories: true)
        let a = try Device(path + "/a.db")
        let remote = FolderStore(path: path + "/remote", repository: try a.repository.store().repository)
        let b = try Device(path + "/b.db", invitedBy: a, at: remote)
        for _ in 0..<2 { for device in [a, b] { try device.sync(remote) } }
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Bob', 2)")
        for device in [a, b] { try device.sync(remote) }
        try a.write("INSERT INTO team VALUES ('y', 'Rome')")
        try a.sync(remote)
        try a.close()
        try b.close()
    }

    /// Both devices write and exchange, with every kind of call. A call that fails is not repeated here.
    func work(_ remote: any ObjectStore) throws {
        func attempt(_ body: () throws -> Void) throws {
            do { try body() } catch is RemoteFailure {}
        }
        try attempt { try b.sync(remote) }
        try b.write("UPDATE player SET score = score + 10; INSERT INTO team VALUES ('x', 'Oslo')")
        StockProgram(path + "/b.db").execute("INSERT INTO player VALUES (3, 'outside', 3)")
        try attempt { try b.sync(remote) }
        try a.write("UPDATE player SET name = name || '!'; DELETE FROM player WHERE id = 1")
        try attempt { try a.sync(remote) }
        try attempt { _ = try a.repository.compact(remote, named: "remote") }
        try attempt { try b.sync(remote) }
    }

    func settle() throws {
        for _ in 0..<3 { for device in [a, b] { try device.sync(folder) } }
    }

    func expectWhole(_ name: Comment) throws {
        #expect(try a.rows() == b.rows(), name)
        #expect(
            try a.rows() == [
                "player 1 Ann 11", "player 2 Bob! 12", "player 3 outside 3", "team x Oslo", "team y Rome",
            ], name)
        let (one, other) = (try a.repository.verify(), try b.repository.verify())
        #expect(one.head == other.head && one.digest == other.digest, name)
        #expect(one.differences.isEmpty && other.differences.isEmpty, name)
        #expect(try a.repository.status().isSettled && b.repository.status().isSettled, name)
    }

    func close() throws {
        try a.close()
        try b.close()
    }
}

@Suite("Every call of a remote fails once", .serialized)
struct RemoteFaultTests {
    private let folder = TemporaryFolder()

    private func copy(_ name: String) throws -> FaultScene {
        let path = folder.path(name)
        try FileManager.default.copyItem(atPath: folder.path("start"), toPath: path)
        return try FaultScene(path)
    }

    @Test("nothing that was committed is lost, the next call goes on, and heads are equal at the end")
    func everyCall() throws {
        try FaultScene.start(folder.path("start"))
        let scene = try copy("whole")
        let counting = FailingOnceRemote(scene.folder, failAt: 0, isAfter: false)
        try scene.work(counting)
        try scene.settle()
        try scene.expectWhole("without a fault")
        try scene.close()
        #expect(counting.callCount > 12)
        for call in 1...(counting.callCount + 2) {
            // Half of them in `make test`: the calls take turns at whether it fails before its effect.
            for isAfter in Sweep.sample([false, true], oneIn: 2, offset: call) {
                let scene = try copy("\(call)-\(isAfter)")
                try scene.work(FailingOnceRemote(scene.folder, failAt: call, isAfter: isAfter))
                try scene.settle()
                try scene.expectWhole("call \(call), after its effect: \(isAfter)")
                try scene.close()
                try FileManager.default.removeItem(atPath: scene.path)
            }
        }
    }
}

@Suite("A store joins, and its calls of the remote fail")
struct FailedJoinTests {
    private let folder = TemporaryFolder()

    /// A store that joined was killed between the put of its epoch and that of its acceptance: no device could join after it.
    @Test("a remote has the records that each of its records knows, whichever call of a join was the last one")
    func recordsInOrder() throws {
        let remote = MemoryRemote()
        let a = try Device(folder.path("a.db"))
        try a.sync(remote)
        for puts in 0..<4 {
            let b = try Device(folder.path("b\(puts).db"), invitedBy: a, at: remote)
            try b.write("INSERT INTO player VALUES (\(puts), 'Ann', 1)")
            let first = (remote.calls["put"] ?? 0) + puts
            remote.failingPuts = first..<Int.max
            _ = try? b.sync(remote)
            remote.failingPuts = 0..<0
            try b.close()
            // The next device reads the list of members at the remote alone.
            let c = try Device(folder.path("c\(puts).db"), invitedBy: a, at: remote)
            try c.close()
        }
        try a.close()
    }

    @Test("a record that refers to one that nobody has stops no invitation, no removal and no commit")
    func unresolvedRecord() throws {
        let remote = MemoryRemote()
        let a = try Device(folder.path("a.db"))
        let liar = try Device(folder.path("liar.db"), invitedBy: a, at: remote)
        for device in [liar, a] { try device.sync(remote) }
        let store = try liar.repository.store()
        var list = try liar.repository.memberList(store)
        var secrets = try store.epochSecrets()
        // The second record knows the first, which is not put.
        _ = try list.beginEpoch(store.keys, &secrets, time: 1)
        let record = try list.beginEpoch(store.keys, &secrets, time: 2)
        let roster = try ObjectKey(secret: store.rosterSecret, id: .zero, repository: store.repository)
        let bytes = try roster.seal(record.bytes, .memberRecord)
        _ = try remote.put(ObjectName(.memberRecord, of: bytes).text, bytes)
        try a.sync(remote)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        for device in [c, a] { try device.sync(remote) }
        try a.repository.removeMember(store.keys.id.description)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        for device in [a, c, a] { try device.sync(remote) }
        #expect(try c.rows() == ["player 1 Ann 1"])
        #expect(try a.repository.members().filter { !$0.isRemoved }.count == 2)
        #expect(try a.repository.status().isSettled && c.repository.status().isSettled)
        for device in [a, liar, c] { try device.close() }
    }
}

@Suite("A process that commits, exchanges and makes snapshots is killed", .serialized)
struct KilledRepositoryTests {
    private let folder = TemporaryFolder()

    /// Commits numbered rows and exchanges, until it is killed. A file has the numbers for which a commit has returned.
    private static func run(_ path: String, _ round: Int, milliseconds: Int) throws {
        let scene = try FaultScene(path)
        let acknowledged = FileHandle(forWritingAtPath: path + "/acknowledged")
        try acknowledged?.seekToEnd()
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { kill(getpid(), SIGKILL) }
        for number in 0... {
            let id = 1_000 * (round + 1) + number
            let device = number % 2 == 0 ? scene.a : scene.b
            try device.write(
                "INSERT INTO player VALUES (\(id), 'r\(round)', \(number)); UPDATE player SET score = \(id)")
            acknowledged?.write(Data("\(id)\n".utf8))
            switch number % 4 {
            case 1: try scene.a.sync(scene.folder)
            case 2: try scene.b.sync(scene.folder)
            case 3 where number % 8 == 7: _ = try device.repository.compact(scene.folder, named: "remote")
            default: break
            }
        }
    }

    @Test("every commit that was acknowledged is there at the end, on both devices")
    func killed() async throws {
        let path = folder.path("start")
        try FaultScene.start(path)
        try Data().write(to: URL(fileURLWithPath: path + "/acknowledged"))
        var numbers = Seed().numbers(0)
        for round in 0..<6 {
            let milliseconds = Int.random(in: 30...900, using: &numbers)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, round = round as Int, milliseconds = milliseconds as Int] in
                try Self.run(path, round, milliseconds: milliseconds)
            }
        }
        let scene = try FaultScene(path)
        try scene.settle()
        let acknowledged = try String(contentsOfFile: path + "/acknowledged", encoding: .utf8).split(separator: "\n")
        #expect(acknowledged.count > 6)
        let rows = Set(try scene.a.texts("SELECT id FROM player"))
        for id in acknowledged { #expect(rows.contains(String(id)), "\(id)") }
        #expect(try scene.a.rows() == scene.b.rows())
        let (one, other) = (try scene.a.repository.verify(), try scene.b.repository.verify())
        #expect(one.head == other.head && one.digest == other.digest)
        #expect(one.differences.isEmpty && other.differences.isEmpty)
        #expect(try scene.a.repository.status().isSettled && scene.b.repository.status().isSettled)
    }
}
