import ChangesetSync
import CipherDatabase
import CipherObservation
import Synchronization
import TestKit

/// A process that is killed: from a moment on no transaction is committed and no call reaches a remote.
final class Power: Sendable {
    struct Off: Error {}

    private struct State {
        var commitsLeft: Int?
        var callsLeft: Int?
        /// Whether the call at which it ends is still done.
        var isLastCallDone = false
        var isOff = false
    }

    private let state = Mutex(State())

    var isOff: Bool { state.withLock { $0.isOff } }

    func arm(_ trouble: Plan.Trouble) {
        state.withLock { state in
            state = State()
            switch trouble {
            case .killedAtCommit(let count): state.commitsLeft = count
            case .killedAtCall(let count, let isDone): (state.callsLeft, state.isLastCallDone) = (count, isDone)
            default: break
            }
        }
    }

    func willCommit() throws {
        try state.withLock { state in
            if state.commitsLeft == 0 { state.isOff = true }
            if state.isOff { throw Off() }
            state.commitsLeft = state.commitsLeft.map { $0 - 1 }
        }
    }

    /// Runs a call of a remote.
    func calling<T>(_ body: () async throws -> T) async throws -> T {
        let isLast = try state.withLock { state in
            if state.isOff { throw Off() }
            defer { state.callsLeft = state.callsLeft.map { $0 - 1 } }
            guard state.callsLeft == 0 else { return false }
            state.isOff = true
            if !state.isLastCallDone { throw Off() }
            return true
        }
        let result = try await body()
        if isLast { throw Off() }
        return result
    }
}

/// Lets the commits of a killed process fail.
final class PowerObserver: TransactionObserver, Sendable {
    private let power: Power

    init(_ power: Power) { self.power = power }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws { try power.willCommit() }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}

/// A remote that fails, loses, repeats, withholds, damages and reorders while it is told to.
final class FaultyRemote: SyncRemote, RemoteCompaction {
    struct Fault: Error {}

    private let remote: MemoryRemote
    private let power: Power
    private let dice = Mutex<Dice?>(nil)

    init(_ remote: MemoryRemote, _ power: Power) { (self.remote, self.power) = (remote, power) }

    var name: String { remote.name }
    var repository: RepositoryID { remote.repository }
    var compaction: (any RemoteCompaction)? { remote.compaction == nil ? nil : self }

    func arm(_ seed: Int?) { dice.withLock { $0 = seed.map { Dice($0, 0) } } }

    /// A number that decides about a call; the greatest one while nothing goes wrong.
    private func roll(_ most: Int) -> Int {
        dice.withLock { dice in
            guard var rolled = dice else { return most }
            defer { dice = rolled }
            return rolled(0...most)
        }
    }

    /// Does a call, twice, or not, or without saying so.
    private func calling<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        try await power.calling {
            switch roll(9) {
            case 0: throw Fault()
            case 1:
                _ = try await body()
                throw Fault()
            case 2:
                _ = try await body()
                return try await body()
            default: return try await body()
            }
        }
    }

    func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
        try await calling {
            let count = roll(6)
            guard count < 3, count < objects.count else { return try await remote.put(objects) }
            // As if the connection had ended.
            let results = try await remote.put(Array(objects.prefix(count)))
            if count == 0 { throw Fault() }
            return results
        }
    }

    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        try await calling {
            let kind = roll(8)
            let page = try await remote.list(after: cursor, limit: kind < 3 ? kind + 1 : limit)
            switch kind {
            case 3: return Self.late(page, cursor, count: roll(3))
            case 4:
                // What was listed before.
                guard let all = try? await remote.list(after: RemoteCursor(), limit: .max) else { return page }
                let old = all.entries.filter { $0.position.sequence <= cursor.sequence(of: $0.position.author) }
                return RemotePage(
                    entries: Array(old.suffix(2)) + page.entries, next: page.next, hasMore: page.hasMore, stalled: [])
            default: return page
            }
        }
    }

    /// A listing that does not have the latest entries yet.
    private static func late(_ page: RemotePage, _ cursor: RemoteCursor, count: Int) -> RemotePage {
        let entries = page.entries.dropLast(count)
        var next = cursor
        for entry in entries { next.advance(after: entry.position) }
        return RemotePage(entries: Array(entries), next: next, hasMore: false, stalled: [])
    }

    func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
        try await calling {
            var objects = try await remote.get(ids)
            switch roll(7) {
            case 0: objects.removeAll { _ in roll(1) == 0 }
            case 1: objects.reverse()
            case 2:
                guard let object = objects.first, var bytes = Optional(object.bytes), !bytes.isEmpty else { break }
                bytes[roll(1_000_000) % bytes.count] ^= 1
                objects[0] = RemoteObject(
                    repository: object.repository, id: object.id, position: nil, bytes: bytes)
            default: break
            }
            return objects
        }
    }

    func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws {
        try await calling { try await remote.acknowledge(acknowledgement) }
    }

    func acknowledgements() async throws -> [RemoteAcknowledgement] {
        try await calling { try await remote.acknowledgements() }
    }

    func delete(_ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>) async throws {
        try await calling {
            if roll(3) == 0 {
                try await remote.delete(
                    objects.filter { _ in roll(1) == 0 }, through: RemoteCursor(), except: needed)
                throw Fault()
            }
            try await remote.delete(objects, through: cursor, except: needed)
        }
    }
}
