import Synchronization
import TestKit

@testable import ChangesetSync

/// A remote in memory, whose objects tests damage, remove and set back.
final class MemoryRemote: ObjectStore {
    private struct Content {
        var objects: [String: [UInt8]] = [:]
        var calls: [String: Int] = [:]
        var failingPuts = 0..<0
    }

    private let content = Mutex(Content())
    let description = "memory"
    let mayDelete: Bool

    init(mayDelete: Bool = true) { self.mayDelete = mayDelete }

    struct Forbidden: Error {}

    var objects: [String: [UInt8]] {
        get { content.withLock { $0.objects } }
        set { content.withLock { $0.objects = newValue } }
    }
    var calls: [String: Int] {
        get { content.withLock { $0.calls } }
        set { content.withLock { $0.calls = newValue } }
    }
    /// The calls of `put` that fail, from 0.
    var failingPuts: Range<Int> {
        get { content.withLock { $0.failingPuts } }
        set { content.withLock { $0.failingPuts = newValue } }
    }
    func names(_ prefix: String) -> [String] { objects.keys.filter { $0.hasPrefix(prefix) }.sorted() }
    var byteCount: Int { objects.values.reduce(0) { $0 + $1.count } }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        try content.withLock {
            $0.calls["put", default: 0] += 1
            if $0.failingPuts.contains($0.calls["put", default: 0] - 1) { throw Forbidden() }
            if $0.objects[name] != nil { return .alreadyPresent }
            $0.objects[name] = bytes
            return .stored
        }
    }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        content.withLock {
            $0.calls["get", default: 0] += 1
            return $0.objects[name].map { Array($0.prefix(limitBytes + 1)) }
        }
    }
    func list(_ prefix: String) throws -> [ListedObject] {
        content.withLock { content in
            content.calls["list", default: 0] += 1
            return content.objects.filter { $0.key.hasPrefix(prefix) }
                .map { ListedObject(name: $0.key, byteCount: $0.value.count) }
        }
    }
    func delete(_ name: String) throws {
        guard mayDelete else { throw Forbidden() }
        content.withLock {
            $0.calls["delete", default: 0] += 1
            $0.objects[name] = nil
        }
    }
}

/// A remote that gives so many objects and then fails.
final class FailingRemote: ObjectStore {
    private let remote: MemoryRemote
    private let left: Mutex<Int>
    let description = "failing"

    struct Failure: Error {}

    init(_ remote: MemoryRemote, afterGets count: Int) {
        self.remote = remote
        left = Mutex(count)
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { throw Failure() }
    func list(_ prefix: String) throws -> [ListedObject] { try remote.list(prefix) }
    func delete(_ name: String) throws { throw Failure() }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        let isLast = left.withLock { count in
            count -= 1
            return count < 0
        }
        if isLast { throw Failure() }
        return try remote.get(name, limitBytes: limitBytes)
    }
}

/// A remote that fails, lies, repeats, reorders, loses its answers and is late, by a seed.
final class FaultyRemote: ObjectStore {
    enum Fault: CaseIterable {
        case failsBefore
        case failsAfter
        case forgetsPut
        case oldListing
        case incompleteListing
        case repeatedListing
        case foreignNames
        case missing
        case damaged
        case truncated
        case swapped
    }

    struct Failure: Error {}

    private struct State {
        var numbers: RandomNumbers
        var listing: [ListedObject] = []
        var isCalm = false
    }

    private let remote: MemoryRemote
    private let state: Mutex<State>
    /// One call of so many has a fault.
    private let rate: Int

    init(_ remote: MemoryRemote, _ numbers: RandomNumbers, rate: Int) {
        self.remote = remote
        self.rate = rate
        state = Mutex(State(numbers: numbers))
    }

    var description: String { "faulty" }
    /// From here on the remote is right.
    func calm() { state.withLock { $0.isCalm = true } }

    private func fault() -> Fault? {
        state.withLock { state in
            guard !state.isCalm, Int.random(in: 0..<rate, using: &state.numbers) == 0 else { return nil }
            return Fault.allCases.randomElement(using: &state.numbers)
        }
    }

    private func number(below count: Int) -> Int {
        state.withLock { .random(in: 0..<max(count, 1), using: &$0.numbers) }
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        switch fault() {
        case .failsBefore: throw Failure()
        case .forgetsPut: return .stored
        case .failsAfter:
            _ = try remote.put(name, bytes)
            throw Failure()
        case .damaged:
            // Damage that stays.
            var damaged = bytes
            damaged[number(below: bytes.count)] ^= 0x40
            return try remote.put(name, damaged)
        case .truncated: return try remote.put(name, Array(bytes.prefix(number(below: bytes.count))))
        default: return try remote.put(name, bytes)
        }
    }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        let bytes = try remote.get(name, limitBytes: limitBytes)
        switch fault() {
        case .failsBefore, .failsAfter: throw Failure()
        case .missing: return nil
        case .swapped:
            let all = remote.objects
            return all.isEmpty ? nil : all[all.keys.sorted()[number(below: all.count)]]
        case .truncated: return bytes.map { Array($0.dropLast()) }
        case .damaged:
            guard var damaged = bytes, !damaged.isEmpty else { return bytes }
            damaged[number(below: damaged.count)] ^= 1
            return damaged
        default: return bytes
        }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        let fresh = try remote.list(prefix).sorted { $0.name < $1.name }
        let old = state.withLock { state in
            defer { state.listing = fresh }
            return state.listing
        }
        switch fault() {
        case .failsBefore, .failsAfter: throw Failure()
        case .oldListing: return old
        case .incompleteListing: return fresh.filter { _ in number(below: 3) > 0 }
        case .repeatedListing: return (fresh + fresh).reversed()
        case .foreignNames:
            let names = ["", "c", "c/", "../c", "c/0-1-2", "x/zz", "c/\(String(repeating: "9", count: 300))", "é/"]
            return fresh + names.map { ListedObject(name: $0, byteCount: -1) }
        default: return fresh
        }
    }

    func delete(_ name: String) throws {
        switch fault() {
        case .failsBefore: throw Failure()
        case .failsAfter:
            try remote.delete(name)
            throw Failure()
        default: try remote.delete(name)
        }
    }
}
