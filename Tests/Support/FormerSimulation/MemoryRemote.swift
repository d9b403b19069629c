import ChangesetSync
import StorePlatform
import Synchronization

/// A remote in memory that fails, lies, repeats and loses acknowledgements, as a test tells it.
package final class MemoryRemote: SyncRemote {
    package struct Fault: Error {
        package init() {}
    }

    package struct Content {
        package var objects: [ObjectID: [UInt8]] = [:]
        package var logs: [AuthorPseudonym: [ObjectID]] = [:]
        /// How many further calls fail before they do anything.
        package var failures = 0
        /// How many further puts are done and fail all the same.
        package var lostAcknowledgements = 0
        /// Objects that are listed and not returned.
        package var withheld: Set<ObjectID> = []
        /// The most objects that a put takes; the rest is as if the connection had ended.
        package var mostObjects = Int.max
        /// Whether logs are listed with the last author first, one entry a page.
        package var isReversed = false
        /// Logs that are listed as ones that cannot be read on.
        package var stalls: [RemoteStall] = []
        package var calls = 0
        /// The call that fails before it does anything.
        package var failAt: Int?
        /// The kind of the calls that always fail, before they do anything.
        package var failing: String?
        /// What the replicas have acknowledged.
        package var acknowledgements: [AuthorPseudonym: [UInt8]] = [:]
        /// How many entries of each log were removed.
        package var removed: [AuthorPseudonym: Int] = [:]
        /// The kinds of the calls.
        package var names: [String] = []
        /// What happens before the next call of a kind, once.
        package var before: (name: String, action: @Sendable (inout Content) -> Void)?
        /// What happens before a call, by its number.
        package var beforeCall: (number: Int, action: @Sendable (inout Content) -> Void)?

        /// Sets what happens before one of the next calls of a kind; 1 is the next one.
        package mutating func act(
            before number: Int, of name: String, _ action: @escaping @Sendable (inout Content) -> Void
        ) {
            guard number > 1 else {
                before = (name, action)
                return
            }
            before = (name, { content in content.act(before: number - 1, of: name, action) })
        }
    }

    package let name: String
    package let repository: RepositoryID
    package let content = Mutex(Content())
    /// Whether checkpoints can be made here.
    let isCompacting: Bool

    package init(_ repository: RepositoryID, named name: String = "memory", isCompacting: Bool = false) {
        (self.repository, self.name, self.isCompacting) = (repository, name, isCompacting)
    }

    private func call(_ content: inout Content, _ name: String = #function) throws {
        content.calls += 1
        content.names.append(String(name.prefix { $0 != "(" }))
        if let before = content.before, before.name == content.names.last {
            content.before = nil
            before.action(&content)
        }
        if let before = content.beforeCall, before.number == content.calls {
            content.beforeCall = nil
            before.action(&content)
        }
        if content.failAt == content.calls { throw Fault() }
        if content.failing == content.names.last {
            throw RemoteError.unavailable(remote: self.name, SystemError(call: "read", path: nil, errorNumber: 5))
        }
        guard content.failures > 0 else { return }
        content.failures -= 1
        throw Fault()
    }

    package func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
        try content.withLock { content in
            try call(&content)
            var results: [PutResult] = []
            for object in objects.prefix(content.mostObjects) {
                if let position = object.position,
                    position.sequence > UInt64(content.logs[position.author]?.count ?? 0) + 1
                {
                    throw RemoteError.remoteRewound(remote: name, missing: position)
                }
                if let present = content.objects[object.id] {
                    if present != object.bytes {
                        results.append(.collision(.object))
                        return results
                    }
                    results.append(.alreadyPresent)
                } else {
                    content.objects[object.id] = object.bytes
                    results.append(.stored)
                }
                guard let position = object.position else { continue }
                let log = content.logs[position.author] ?? []
                if position.sequence <= UInt64(log.count) {
                    if log[Int(position.sequence) - 1] != object.id {
                        results[results.count - 1] = .collision(.position)
                        return results
                    }
                } else {
                    content.logs[position.author, default: []].append(object.id)
                }
            }
            if content.lostAcknowledgements > 0 {
                content.lostAcknowledgements -= 1
                throw Fault()
            }
            return results
        }
    }

    package func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        try content.withLock { content in
            try call(&content)
            for (author, sequence) in cursor.sequences where sequence > UInt64(content.logs[author]?.count ?? 0) {
                throw RemoteError.remoteRewound(remote: name, missing: LogPosition(author: author, sequence: sequence))
            }
            var (entries, next, hasMore, stalled) = ([RemoteEntry](), cursor, false, content.stalls)
            let authors = content.logs.keys.sorted { content.isReversed ? $1 < $0 : $0 < $1 }
            let most = content.isReversed ? 1 : limit
            for author in authors {
                let removed = content.removed[author] ?? 0
                if cursor.sequence(of: author) < removed {
                    if cursor.sequence(of: author) == 0 {
                        let first = LogPosition(author: author, sequence: 1)
                        stalled.append(RemoteStall(position: first, reason: .entryMissing))
                        continue
                    }
                    let missing = LogPosition(author: author, sequence: cursor.sequence(of: author))
                    throw RemoteError.remoteRewound(remote: name, missing: missing)
                }
                for (index, id) in (content.logs[author] ?? []).enumerated()
                where index >= Int(cursor.sequence(of: author)) {
                    guard entries.count < most else {
                        hasMore = true
                        break
                    }
                    let position = LogPosition(author: author, sequence: UInt64(index + 1))
                    if content.objects[id] == nil {
                        stalled.append(RemoteStall(position: position, reason: .objectMissing(id)))
                        break
                    }
                    entries.append(RemoteEntry(id: id, position: position))
                    next.advance(after: position)
                }
            }
            return RemotePage(entries: entries, next: next, hasMore: hasMore, stalled: stalled)
        }
    }

    package func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
        try content.withLock { content in
            try call(&content)
            return ids.compactMap { id in
                guard let bytes = content.objects[id], !content.withheld.contains(id) else { return nil }
                return RemoteObject(repository: repository, id: id, position: nil, bytes: bytes)
            }
        }
    }

    /// Changes what the remote has.
    package func edit<T: Sendable>(_ body: (inout sending Content) throws -> sending T) rethrows -> T {
        try content.withLock(body)
    }
}

extension MemoryRemote: RemoteCompaction {
    package var compaction: (any RemoteCompaction)? { isCompacting ? self : nil }

    package func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws {
        try content.withLock { content in
            try call(&content)
            content.acknowledgements[acknowledgement.author] = acknowledgement.bytes
            if content.lostAcknowledgements > 0 {
                content.lostAcknowledgements -= 1
                throw Fault()
            }
        }
    }

    package func acknowledgements() async throws -> [RemoteAcknowledgement] {
        try content.withLock { content in
            try call(&content)
            return content.acknowledgements.map { RemoteAcknowledgement(author: $0, bytes: $1) }
        }
    }

    package func delete(
        _ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>
    ) async throws {
        try content.withLock { content in
            try call(&content)
            for id in objects where !needed.contains(id) { content.objects[id] = nil }
            for (author, last) in cursor.sequences {
                for id in (content.logs[author] ?? []).prefix(Int(last)) where !needed.contains(id) {
                    content.objects[id] = nil
                }
                content.removed[author] = max(content.removed[author] ?? 0, Int(last) - 1)
            }
        }
    }
}
