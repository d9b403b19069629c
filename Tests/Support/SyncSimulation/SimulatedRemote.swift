import CipherDatabase
import CipherObservation
import ChangesetSync
import Synchronization

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
    func calling<T>(_ body: () throws -> T) throws -> T {
        let isLast = try state.withLock { state in
            if state.isOff { throw Off() }
            defer { state.callsLeft = state.callsLeft.map { $0 - 1 } }
            guard state.callsLeft == 0 else { return false }
            state.isOff = true
            if !state.isLastCallDone { throw Off() }
            return true
        }
        let result = try body()
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

/// The objects of a remote.
final class RemoteContent: ObjectStore {
    private let content = Mutex<[String: [UInt8]]>([:])
    let description = "memory"

    var objects: [String: [UInt8]] {
        get { content.withLock { $0 } }
        set { content.withLock { $0 = newValue } }
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        content.withLock { objects in
            if objects[name] != nil { return .alreadyPresent }
            objects[name] = bytes
            return .stored
        }
    }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        content.withLock { $0[name].map { Array($0.prefix(limitBytes + 1)) } }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        content.withLock { objects in
            objects.keys.filter { $0.hasPrefix(prefix) }.sorted().map { ListedObject(name: $0, byteCount: nil) }
        }
    }

    func delete(_ name: String) throws { content.withLock { $0[name] = nil } }
}

/// A remote that fails, lies, repeats, reorders, loses its answers and is late while it is armed.
final class SimulatedRemote: ObjectStore {
    struct Fault: Error {}

    private struct State {
        var dice: Dice?
        var formerListing: [ListedObject] = []
    }

    let content = RemoteContent()
    let name: String
    private let power: Power
    private let state = Mutex(State())

    init(named name: String, _ power: Power) { (self.name, self.power) = (name, power) }

    var description: String { name }

    func arm(_ seed: Int?) { state.withLock { $0.dice = seed.map { Dice($0, 0) } } }

    /// A number that decides about a call; the greatest one while nothing goes wrong.
    private func roll(_ most: Int) -> Int {
        state.withLock { state in
            guard var rolled = state.dice else { return most }
            defer { state.dice = rolled }
            return rolled(0...most)
        }
    }

    /// Does a call, twice, or not, or without its answer.
    private func calling<T>(_ body: () throws -> T) throws -> T {
        try power.calling {
            switch roll(11) {
            case 0: throw Fault()
            case 1:
                _ = try body()
                throw Fault()
            case 2:
                _ = try body()
                return try body()
            default: return try body()
            }
        }
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        try calling {
            var bytes = bytes
            switch roll(15) {
            case 0: return .stored
            case 1: bytes[roll(1_000_000) % bytes.count] ^= 0x40
            case 2: bytes.removeLast(1 + roll(1_000_000) % bytes.count)
            default: break
            }
            return try content.put(name, bytes)
        }
    }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try calling {
            guard var bytes = try content.get(name, limitBytes: limitBytes), !bytes.isEmpty else { return nil }
            switch roll(11) {
            case 0: return nil
            case 1: bytes[roll(1_000_000) % bytes.count] ^= 1
            case 2: bytes.removeLast(1 + roll(1_000_000) % bytes.count)
            case 3:
                let all = content.objects
                return all[all.keys.sorted()[roll(1_000_000) % all.count]]
            default: break
            }
            return bytes
        }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        try calling {
            let fresh = try content.list(prefix)
            let former = state.withLock { state in
                defer { state.formerListing = fresh }
                return state.formerListing
            }
            switch roll(9) {
            case 0: return former
            case 1: return fresh.filter { _ in roll(2) > 0 }
            case 2: return (fresh + fresh).reversed()
            case 3:
                let names = ["", "c", "c/", "../c", "c/0-1-2", "x/zz", "c/\(String(repeating: "9", count: 300))", "é/"]
                return fresh + names.map { ListedObject(name: $0, byteCount: -1) }
            default: return fresh
            }
        }
    }

    func delete(_ name: String) throws {
        try calling {
            if roll(5) == 0 { return }
            try content.delete(name)
        }
    }

    // MARK: Mishaps

    /// Loses about a third of the objects.
    func loseObjects(_ seed: Int) {
        var dice = Dice(seed, 1)
        var objects = content.objects
        for name in objects.keys.sorted() where dice(0...2) == 0 { objects[name] = nil }
        content.objects = objects
    }
}
