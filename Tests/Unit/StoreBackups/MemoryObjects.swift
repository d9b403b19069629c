import Foundation
import ObjectStorage
import StoreBackups
import Synchronization

/// Objects of a server in memory, with a clock that a test moves, listings that are late, and calls that fail.
final class MemoryObjects: ServedObjects {
    struct Failure: Error, Equatable {}
    struct Denied: Error, Equatable {}

    struct State {
        var objects: [String: (bytes: [UInt8], stored: Int)] = [:]
        /// The time of the server, in seconds since 1970.
        var now = 1_000_000
        /// Objects that listings do not have yet.
        var unlisted: Set<String> = []
        /// Whether new objects come late in listings.
        var isListingLate = false
        /// Whether names that are taken are replaced.
        var ignoresConditions = false
        var deniesWriting = false
        var calls = 0
        /// The number of the call that fails, and whether it is done before.
        var failing: (number: Int, isDone: Bool)?
    }

    private let state = Mutex(State())
    /// Called before each call with its name and that of the object, without a lock.
    private let hook = Mutex<Hook?>(nil)

    struct Hook: Sendable { let run: @Sendable (String, String) -> Void }

    var description: String { "memory" }

    func with<R: Sendable>(_ body: (inout State) -> R) -> R { state.withLock { body(&$0) } }

    func before(_ run: (@Sendable (_ call: String, _ name: String) -> Void)?) {
        hook.withLock { $0 = run.map { Hook(run: $0) } }
    }

    func names(_ prefix: String) -> [String] { with { $0.objects.keys.filter { $0.hasPrefix(prefix) }.sorted() } }

    private func call<R>(_ call: String, _ name: String, _ body: (inout State) throws -> R) throws -> R {
        hook.withLock(\.self)?.run(call, name)
        return try state.withLock { state in
            state.calls += 1
            let fails = state.failing?.number == state.calls
            if fails, state.failing?.isDone == false { throw Failure() }
            if state.deniesWriting, ["put", "replace", "delete"].contains(call) { throw Denied() }
            let result = try body(&state)
            if fails { throw Failure() }
            return result
        }
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        try call("put", name) { state in
            if state.objects[name] != nil, !state.ignoresConditions { return .alreadyPresent }
            state.store(name, bytes)
            return .stored
        }
    }

    func replace(_ name: String, _ bytes: [UInt8]) throws { try call("replace", name) { $0.store(name, bytes) } }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try call("get", name) { $0.objects[name].map { Array($0.bytes.prefix(limitBytes + 1)) } }
    }

    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        try call("get", name) { $0.objects[name].map { Array($0.bytes.dropFirst(offset).prefix(byteCount)) } }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        try listing(prefix).entries.map { ListedObject(name: $0.name, byteCount: $0.byteCount) }
    }

    func listing(_ prefix: String) throws -> ServedListing {
        try call("list", prefix) { state in
            let shown = state.objects.filter { $0.key.hasPrefix(prefix) && !state.unlisted.contains($0.key) }
            return ServedListing(
                now: state.now,
                entries: shown.map { .init(name: $0.key, byteCount: $0.value.bytes.count, stored: $0.value.stored) })
        }
    }

    func delete(_ name: String) throws { try call("delete", name) { $0.objects[name] = nil } }

    func removeUploads(olderThan seconds: Int) throws -> Int { try call("uploads", "") { _ in 0 } }

    func isDenied(_ error: any Error) -> Bool { error is Denied }
}

extension MemoryObjects.State {
    fileprivate mutating func store(_ name: String, _ bytes: [UInt8]) {
        objects[name] = (bytes, now)
        if isListingLate { unlisted.insert(name) }
    }
}
