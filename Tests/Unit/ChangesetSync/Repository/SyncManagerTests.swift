import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("A manager of a remote")
struct SyncManagerTests {
    private let folder = TemporaryFolder()

    @Test("a sync that joins commits of its second exchange alone returns the new head")
    func laterHead() async throws {
        let path = folder.path("remote")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.store().repository)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        let watched = WatchedRemote(remote)
        let manager = SyncManager(a.repository, remote: watched, named: "remote")
        #expect(try await manager.sync() == nil)
        let listings = watched.listings
        try await manager.fetch()
        let ofOneExchange = watched.listings - listings
        try b.write("INSERT INTO team VALUES ('x', 'Oslo')")
        // Between the two exchanges of the next sync.
        let other = b.repository
        watched.before(listing: watched.listings + ofOneExchange + 1) { try other.sync(remote, named: "remote") }
        #expect(try await manager.sync() != nil)
        #expect(try a.rows() == ["team x Oslo"])
    }
}

/// A folder at which something happens before one of its listings.
private final class WatchedRemote: ObjectStore {
    private struct State {
        var listings = 0
        var number = 0
        var body: (@Sendable () throws -> Void)?
    }

    private let remote: FolderStore
    private let state = Mutex(State())

    init(_ remote: FolderStore) { self.remote = remote }

    var description: String { remote.description }
    var listings: Int { state.withLock { $0.listings } }

    func before(listing number: Int, _ body: @escaping @Sendable () throws -> Void) {
        state.withLock { ($0.number, $0.body) = (number, body) }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        let body = state.withLock { state in
            state.listings += 1
            return state.listings == state.number ? state.body : nil
        }
        try body?()
        return try remote.list(prefix)
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try remote.put(name, bytes) }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? { try remote.get(name, limitBytes: limitBytes) }
    func delete(_ name: String) throws { try remote.delete(name) }
}
