import Foundation
import StorePlatform
import Testing

@testable import ChangesetSync

@Suite("Acknowledgements and removal at a folder")
struct DirectoryCompactionTests {
    private let scratch: RemoteScratch

    init() throws { scratch = try RemoteScratch() }

    private func acknowledgement(_ number: UInt8) -> RemoteAcknowledgement {
        RemoteAcknowledgement(author: Samples.author(), bytes: [UInt8](repeating: number, count: 200))
    }

    @Test("an acknowledgement replaces the one before, whole or not at all, wherever its writer is killed")
    func replacement() async throws {
        let first = acknowledgement(1)
        try await scratch.remote().acknowledge(first)
        #expect(try await scratch.remote().acknowledgements() == [first])
        var call = 1
        while true {
            scratch.disk.restart(killedAt: call)
            try? await scratch.faulty().acknowledge(acknowledgement(2))
            let isDead = scratch.disk.isDead
            let found = try await scratch.remote().acknowledgements()
            #expect(found == [first] || found == [acknowledgement(2)], "call \(call)")
            if !isDead { break }
            try await scratch.remote().acknowledge(first)
            call += 1
        }
        #expect(try await scratch.remote().acknowledgements() == [acknowledgement(2)] && call > 5)
        #expect(scratch.names("ack") == [Samples.author().description])
    }

    @Test("what is replaced goes, wherever a call is killed; what is needed stays, and logs go on")
    func removal() async throws {
        var call = 1
        while true {
            let scratch = try RemoteScratch()
            let loose = scratch.object(90)
            let objects = scratch.objects(6)
            _ = try await scratch.remote().put([loose] + objects)
            let cursor = Self.cursor(through: 4)
            scratch.disk.restart(killedAt: call)
            try? await scratch.faulty().delete([loose.id], through: cursor, except: [objects[1].id])
            let isDead = scratch.disk.isDead
            try await scratch.remote().delete([loose.id], through: cursor, except: [objects[1].id])
            let left = try await scratch.remote().get([loose.id] + objects.map(\.id)).map(\.id)
            #expect(left == [objects[1], objects[4], objects[5]].map(\.id), "call \(call)")
            #expect(scratch.names("log/\(Samples.author())") == ["4", "5", "6"], "call \(call)")
            let page = try await scratch.remote().list(after: cursor, limit: 10)
            #expect(page.entries.map(\.id) == [objects[4].id, objects[5].id] && page.stalled.isEmpty)
            let next = scratch.object(7, sequence: 7)
            #expect(try await scratch.remote().put([next]) == [.stored])
            if !isDead { break }
            call += 1
        }
        #expect(call > 10)
    }

    private static func cursor(through sequence: UInt64) -> RemoteCursor {
        var cursor = RemoteCursor()
        for number in 1...sequence { cursor.advance(after: LogPosition(author: Samples.author(), sequence: number)) }
        return cursor
    }

    @Test("two stores over a folder make a checkpoint, and a third begins with it")
    func stores() async throws {
        let one = try Replica()
        let (two, three) = (try Replica(key: one.key()), try Replica(key: one.key()))
        let remote = DirectoryRemote(path: scratch.path, repository: try one.repository.id)
        let managers = [one, two, three].map { SyncManager($0.repository, remote: remote) }
        for manager in managers { try await manager.setup() }
        for index in 0..<10 { try one.run("INSERT INTO player VALUES (\(index), 'p', 1)") }
        try two.run("INSERT INTO player VALUES (20, hex(randomblob(400000)), 2)")
        for _ in 0..<2 { for manager in managers.prefix(2) { try await manager.sync() } }
        #expect(try await managers[0].checkpoint()?.rowCount == 11)
        try await managers[2].sync()
        try await managers[1].sync()
        #expect(try one.state() == two.state() && two.state() == three.state())
        #expect(try one.head == three.head && three.commitCount == 1)
        let files = FileManager.default.enumerator(atPath: "\(scratch.path)/\(try one.repository.id)/objects")
        let objects = files?.compactMap { $0 as? String }.filter { $0.contains("/") } ?? []
        // Two parts, one of them divided, and the manifest.
        #expect(objects.count == 5)
        for manager in managers { #expect(try manager.status().isInSync) }
    }
}
