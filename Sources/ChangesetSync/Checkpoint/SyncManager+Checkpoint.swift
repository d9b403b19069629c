import CipherDatabase
import Foundation

/// A checkpoint that was made.
public struct SyncCheckpoint: Hashable, Sendable {
    /// The commit whose state it has; all of its ancestors are replaced.
    public let commit: CommitID
    /// Commits of this store that it has replaced.
    public let commitCount: Int
    public let rowCount: Int
}

extension SyncManager {
    // MARK: Making one

    /// Replaces the history below a commit that all replicas have by the rows of that commit: at the remote, and in this
    /// store. New replicas begin with these rows. Rows, and commits above it, stay as they are.
    ///
    /// The commit is the latest that every replica has acknowledged that is not retired, and that no commit is beside. It
    /// fetches and pushes before. It may be interrupted and repeated at any time.
    /// - Returns: Nil where no such commit has ancestors; ``SyncStatus/replicas`` shows whom it waits for.
    /// - Throws: ``SyncError`` `.checkpointUnsupported`, `.checkpointPending`, `.foreignWrites`, `.digestMismatch`; as
    ///   ``push()`` and ``fetch()``.
    public func checkpoint() async throws -> SyncCheckpoint? {
        guard remote.compaction != nil else { throw SyncError(.checkpointUnsupported) }
        return try await inTurn {
            _ = try await fetchAll()
            _ = try await pushAll()
            return try await reporting { try await self.makeCheckpoint() }
        }
    }

    private func makeCheckpoint() async throws -> SyncCheckpoint? {
        let repository = repository
        try await outsideTasks { try repository.removeReplacedCommits() }
        while true {
            try Task.checkCancellation()
            let found = try await readAcknowledgements()
            guard let plan = try await outsideTasks({ try repository.planCheckpoint() }) else { return nil }
            let known = CheckpointStore.best(found)
            let logs = try await readLogs(plan, after: known?.replaced ?? RemoteCursor(), found)
            if logs.isObstructed, CheckpointStore.best(try await readAcknowledgements()) != known {
                // Another one has announced a checkpoint, and removes entries: the logs begin later.
                continue
            }
            if let error = logs.error { throw error }
            return try await makeCheckpoint(plan, logs, beside: found)
        }
    }

    private func makeCheckpoint(
        _ plan: CheckpointPlan, _ logs: ReplacedLogs, beside found: [Acknowledgement]
    ) async throws -> SyncCheckpoint? {
        let (repository, known) = (repository, CheckpointStore.best(found))
        // Another replica has gone further.
        guard known?.generation ?? 0 <= plan.place.node.generation else { return nil }
        let manifest = try await outsideTasks { try repository.makeParts(at: plan.place) }
        let id = try await identifier(of: manifest)
        let announcement = Acknowledgement.Announcement(
            manifest: id, commit: plan.place.node.id, generation: plan.place.node.generation, replaced: logs.replaced)
        if known?.manifest != id {
            guard try await publish(manifest, announcement, beside: found) else { return nil }
        } else if known?.replaced.contains(logs.replaced) != true {
            // Another replica has made it, and had seen less of the logs.
            guard try await announce(announcement, beside: found) else { return nil }
        }
        try await remove(plan.objects, logs, former: known?.manifest == id ? nil : known)
        try await outsideTasks { try repository.replaceHistory(by: manifest, id, at: plan.place) }
        return SyncCheckpoint(
            commit: plan.place.node.id, commitCount: plan.place.ancestors.count + plan.place.replacedMerges.count,
            rowCount: Int(clamping: manifest.rowCount))
    }

    // These are functions of their own, and stay so: of all of it in one, the release build of Swift 6.3 wrote 16 bytes
    // beyond the memory that it had asked for, and the program ended.

    @inline(never)
    private func identifier(of manifest: CheckpointManifest) async throws -> ObjectID {
        let bytes = try manifest.encoded()
        return try await writer.read { db in
            let key = try RepositoryState.key(db)
            return try bytes.withUnsafeBytes { try key.commitID(of: $0) }
        }
    }

    @inline(never)
    private func publish(
        _ manifest: CheckpointManifest, _ announcement: Acknowledgement.Announcement, beside found: [Acknowledgement]
    ) async throws -> Bool {
        try await put(manifest, announcement.manifest, storedAs: announcement.commit)
        return try await announce(announcement, beside: found)
    }

    /// Removes from the remote what the checkpoint replaces.
    ///
    /// - Parameter former: The checkpoint before; nil where there is none.
    @inline(never)
    private func remove(
        _ objects: [ObjectID], _ logs: ReplacedLogs, former: Acknowledgement.Announcement?
    ) async throws {
        let others: [ObjectID]
        if let former { others = try await formerObjects(former) } else { others = [] }
        try await remote.compaction?.delete(objects + others, through: logs.replaced, except: logs.needed)
    }

    /// The objects of the checkpoint before, with the chunks of long ones.
    private func formerObjects(_ former: Acknowledgement.Announcement) async throws -> [ObjectID] {
        guard case .commit(let content)? = try await open([former.manifest])[former.manifest],
            let manifest = try? CheckpointManifest(encoded: content.canonical[...])
        else { return [] }
        let key = try await writer.read { try RepositoryState.key($0) }
        let listed = [former.manifest] + manifest.parts
        var (found, rest) = (listed, listed[...])
        while !rest.isEmpty {
            try Task.checkCancellation()
            let wanted = Array(rest.prefix(Limits.objectsAtOnce))
            rest = rest.dropFirst(wanted.count)
            for object in try await remote.get(wanted) {
                guard case .manifest(let long)? = try? key.open(object.bytes, id: object.id) else { continue }
                found += long.chunks
            }
        }
        return found
    }

    /// Reads the logs up to the first entry of each that is not replaced.
    ///
    /// An entry that its author has not acknowledged is not replaced, whatever object it names: nobody has authenticated
    /// that it stands there, and all would pass what the author pushes there later.
    private func readLogs(
        _ plan: CheckpointPlan, after former: RemoteCursor, _ found: [Acknowledgement]
    ) async throws -> ReplacedLogs {
        let pushed = Dictionary(found.map { ($0.pusher, $0.pushed) }, uniquingKeysWith: max)
        var (logs, cursor) = (ReplacedLogs(replaced: former), former)
        while true {
            let page: RemotePage
            switch try await list(after: cursor) {
            case .success(let found): page = found
            case .failure(let error):
                logs.error = error
                return logs
            }
            for entry in page.entries {
                let position = entry.position
                let isNext = logs.replaced.sequence(of: position.author) + 1 == position.sequence
                if isNext && position.sequence <= pushed[position.author] ?? .max && plan.replaced.contains(entry.id) {
                    logs.replaced.advance(after: position)
                } else {
                    logs.needed.insert(entry.id)
                }
            }
            logs.isStalled = !page.stalled.isEmpty
            if !page.hasMore || page.next == cursor { return logs }
            cursor = page.next
        }
    }

    /// Announces a checkpoint, unless a replica has come that has not acknowledged it, or one begins a log with what it may
    /// push once more.
    private func announce(
        _ announcement: Acknowledgement.Announcement, beside found: [Acknowledgement]
    ) async throws -> Bool {
        try await acknowledge(preparing: announcement)
        let again = try await readAcknowledgements()
        let (known, retired) = (Set(found.map { [$0.author.bytes, $0.pusher.bytes] }), Set(again.flatMap(\.retired)))
        guard
            again.allSatisfy({ retired.contains($0.author) || known.contains([$0.author.bytes, $0.pusher.bytes]) })
        else {
            try await acknowledge()
            return false
        }
        let name = remote.name
        let last = try await writer.read { db in try AcknowledgementNotes(db: db, name: name).own() }
        guard var next = last else { return false }
        next.checkpoint = CheckpointStore.best(again + [Self.announcing(announcement, next)])
        next.prepared = nil
        try await put(next)
        return true
    }

    private static func announcing(
        _ announcement: Acknowledgement.Announcement, _ own: Acknowledgement
    ) -> Acknowledgement {
        var own = own
        own.checkpoint = announcement
        return own
    }

    // MARK: The objects

    /// Puts the parts of a checkpoint, one after the other, and last its manifest.
    ///
    /// - Parameter name: Under which the parts are stored.
    private func put(_ manifest: CheckpointManifest, _ id: ObjectID, storedAs name: ObjectID) async throws {
        for (number, part) in manifest.parts.enumerated() {
            let bytes = try await writer.read { try CheckpointStore(db: $0).partBytes(number, of: name) }
            try await put(bytes, part)
        }
        try await put(manifest.encoded(), id)
    }

    /// Puts an object that is in no log.
    private func put(_ bytes: [UInt8], _ id: ObjectID) async throws {
        try Task.checkCancellation()
        let key = try await writer.read { try RepositoryState.key($0) }
        let content = CommitContent(parents: [], author: .nobody, generation: 0, canonical: bytes)
        let envelopes = try key.seal(content).map { envelope in
            RemoteObject(repository: key.repository, id: envelope.id, position: nil, bytes: envelope.bytes)
        }
        var rest = envelopes[...]
        while !rest.isEmpty {
            let results = try await remote.put(Array(rest))
            if results.contains(where: { if case .collision = $0 { true } else { false } }) {
                throw SyncError(.collision, commit: id)
            }
            rest = rest.dropFirst(results.count)
        }
    }

    /// Puts the checkpoint that this store begins with at a remote that does not know it: another one, or one that was
    /// emptied.
    func putOwnCheckpoint(unlessKnownBy found: [Acknowledgement]) async throws {
        let best = CheckpointStore.best(found)
        let stored = try await writer.read { db -> CheckpointStore.Stored? in
            let store = CheckpointStore(db: db)
            guard let anchor = try store.anchor(), anchor.generation > best?.generation ?? 0 else { return nil }
            return try store.checkpoint(ofCommit: anchor.id)
        }
        guard let stored else { return }
        try await put(stored.manifest, stored.id, storedAs: stored.id)
        let name = remote.name
        let next = try await writer.read { db -> Acknowledgement? in
            var next = try AcknowledgementNotes(db: db, name: name).next(found, isComplete: false)
            next?.checkpoint = Acknowledgement.Announcement(
                manifest: stored.id, commit: stored.manifest.commit, generation: stored.manifest.anchor.generation,
                replaced: best?.replaced ?? RemoteCursor())
            return next
        }
        if let next { try await put(next) }
    }

    // MARK: Taking one up

    /// Begins with the latest checkpoint, where the store has nothing yet; where it has that commit, passes what was
    /// removed from the logs.
    ///
    /// - Returns: False where a part is missing or was refused.
    /// - Throws: ``SyncError`` `.baseTooOld`
    func takeUpCheckpoint() async throws -> Bool {
        let found = try await readAcknowledgements()
        guard let latest = CheckpointStore.best(found) else { return true }
        let isEmpty = try await writer.read { db in
            if try CommitStore(db: db).node(latest.commit) ?? CheckpointStore(db: db).anchor(after: latest) != nil {
                return false
            }
            guard try RepositoryState(db).head == nil else { throw SyncError(.baseTooOld, commit: latest.commit) }
            return true
        }
        if isEmpty {
            guard try await download(latest) else { return false }
            let (repository, n) = (repository, try await remoteState().n)
            _ = try await outsideTasks { try repository.rejoin(latest, at: n, meta: "", onlyWithoutHead: true) }
            return true
        }
        try await requireBase(found, beforePush: false)
        var cursor = try await remoteState().cursor
        let former = cursor
        cursor.formUnion(latest.replaced)
        if cursor != former {
            try await inTransaction { db, remote in
                try RemoteState.move(RemoteState.require(remote.name, db).n, over: latest.replaced, db)
            }
        }
        return true
    }

    /// Gets manifest and parts of a checkpoint, as far as they are not here. What is not right is set aside.
    ///
    /// - Returns: Whether all of it is here.
    private func download(_ announcement: Acknowledgement.Announcement) async throws -> Bool {
        let id = announcement.manifest
        var stored = try await writer.read { try CheckpointStore(db: $0).checkpoint(id) }
        if stored == nil {
            let found = try await open([id])[id] ?? .refused("the remote does not have it")
            stored = try await inTransaction { db, remote in
                try CheckpointInbox(db: db, remote: RemoteState.require(remote.name, db)).store(found, announcement)
            }
        }
        guard let parts = stored?.manifest.parts else { return false }
        let present = try await writer.read { try CheckpointStore(db: $0).partNumbers(of: id) }
        var missing = parts.indices.filter { !present.contains($0) }[...]
        var isComplete = true
        while !missing.isEmpty {
            try Task.checkCancellation()
            let numbers = Array(missing.prefix(Limits.checkpointPartsAtOnce))
            missing = missing.dropFirst(numbers.count)
            let found = try await open(numbers.map { parts[$0] })
            let isStored = try await inTransaction { db, remote in
                let inbox = CheckpointInbox(db: db, remote: try RemoteState.require(remote.name, db))
                return try numbers.map { number in
                    let object = found[parts[number]] ?? .refused("the remote does not have it")
                    return try inbox.store(object, number, parts[number], of: announcement)
                }
            }
            if isStored.contains(false) { isComplete = false }
        }
        return isComplete
    }

    // MARK: Coming back

    /// Takes up the latest checkpoint after ``SyncError`` `.baseTooOld`, and keeps what this store has not pushed: as one
    /// commit on top of it. A process that is killed has done all of it or nothing.
    ///
    /// Where others have changed the same cell, the value of this store stays, because it is nowhere else; theirs is in
    /// ``ChangesetRepository/conflicts(limit:)``. All rows are compared without the write lock, unless some are written
    /// meanwhile; what differs is written in one transaction.
    /// - Parameter meta: What the program says of the commit.
    /// - Returns: The commit; nil where there was nothing that was not pushed, or nothing to do.
    /// - Throws: ``SyncError`` `.foreignWrites`, `.schemaAhead`, `.checkpointPending` where a part of the checkpoint is not
    ///   there yet, `.checkpointUnsupported`; as ``fetch()``. Nothing is changed then.
    @discardableResult
    public func rejoin(meta: String = "{}") async throws -> Changeset? {
        guard remote.compaction != nil else { throw SyncError(.checkpointUnsupported) }
        return try await inTurn {
            try await reporting { try await self.rejoinInTurn(meta) }
        }
    }

    private func rejoinInTurn(_ meta: String) async throws -> Changeset? {
        guard let latest = CheckpointStore.best(try await readAcknowledgements()) else { return nil }
        guard try await isBehind(latest) else { return nil }
        guard try await download(latest) else { throw SyncError(.checkpointPending) }
        let (repository, n) = (repository, try await remoteState().n)
        return try await outsideTasks { try repository.rejoin(latest, at: n, meta: meta) }
    }

    private func isBehind(_ latest: Acknowledgement.Announcement) async throws -> Bool {
        let name = remote.name
        return try await writer.read { db in
            guard try CommitStore(db: db).node(latest.commit) ?? CheckpointStore(db: db).anchor(after: latest) != nil
            else {
                return true
            }
            do {
                _ = try OutboxCheck(db: db, remote: RemoteState.require(name, db)).replaced(by: latest)
                return false
            } catch let error as SyncError where error.code == .baseTooOld {
                return true
            }
        }
    }
}

/// What the logs of a remote have of the commits that a checkpoint replaces.
private struct ReplacedLogs {
    /// For each log the last entry that is replaced.
    var replaced: RemoteCursor
    /// The objects of the other entries.
    var needed: Set<ObjectID> = []
    /// Whether a log could not be read to its end.
    var isStalled = false
    /// Why an entry up to the cursor is gone.
    var error: RemoteError?

    var isObstructed: Bool { isStalled || error != nil }
}

/// What is to be done for a checkpoint.
struct CheckpointPlan: Sendable {
    let place: CheckpointMaker.Place
    /// The commits that it replaces, itself included.
    let replaced: Set<CommitID>
    /// Objects that are in no log: parts of long commits, and the checkpoint before.
    let objects: [ObjectID]
}

extension ChangesetRepository {
    /// Chooses a checkpoint of what the store knows, without the write lock.
    func planCheckpoint() throws -> CheckpointPlan? {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let maker = CheckpointMaker(try RepositoryTransaction(db))
                guard let place = try maker.place() else { return nil }
                let nodes = try place.ancestors.union(place.replacedMerges).union([place.node.n]).map(maker.graph.node)
                var objects: [ObjectID] = []
                for node in nodes { objects += try maker.looseObjects(of: node) }
                return CheckpointPlan(place: place, replaced: Set(nodes.map(\.id)), objects: objects)
            }
        }
    }
}

extension CheckpointMaker {
    /// Objects at the remote that no log names: those of a checkpoint, and the parts of a long commit.
    fileprivate func looseObjects(of node: CommitNode) throws -> [ObjectID] {
        let (db, store) = (transaction.db, transaction.store)
        if node.kind == .checkpoint {
            guard let former = try CheckpointStore(db: db).checkpoint(ofCommit: node.id) else { return [] }
            var found = [former.id] + former.manifest.parts
            found += try chunks(of: former.id, former.manifest.encoded())
            for (number, id) in former.manifest.parts.enumerated() {
                found += try chunks(of: id, CheckpointStore(db: db).partBytes(number, of: former.id))
            }
            return found
        }
        let length = try Int.fetchOne(
            db, sql: "SELECT length(body) FROM main.\(SyncTables.commit) WHERE n = ?", arguments: [node.n])
        guard let length, length > Limits.objectPlaintextBytes else { return [] }
        return try chunks(of: node.id, store.canonical(node.n))
    }

    /// The chunks into which a long object is divided.
    private func chunks(of id: ObjectID, _ canonical: [UInt8]) throws -> [ObjectID] {
        guard canonical.count > Limits.objectPlaintextBytes else { return [] }
        return try canonical.withUnsafeBytes { bytes in
            try stride(from: 0, to: bytes.count, by: Limits.objectPlaintextBytes).enumerated().map { number, start in
                let end = min(start + Limits.objectPlaintextBytes, bytes.count)
                return try transaction.key.chunkID(
                    of: id, number: UInt64(number), UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
            }
        }
    }
}

/// Stores what comes of a checkpoint, when it is proved. Inside a transaction.
private struct CheckpointInbox {
    let db: Database
    let remote: RemoteState
    private var store: CheckpointStore { CheckpointStore(db: db) }

    /// - Returns: Nil where it was refused.
    func store(
        _ found: Inbox.Found, _ announcement: Acknowledgement.Announcement
    ) throws -> CheckpointStore.Stored? {
        let id = announcement.manifest
        var reason = "it is the checkpoint of another commit"
        switch found {
        case .refused(let refusal): reason = refusal
        case .commit(let content):
            let manifest: CheckpointManifest
            do {
                manifest = try CheckpointManifest(encoded: content.canonical[...])
            } catch {
                reason = "\(error)"
                break
            }
            guard manifest.commit == announcement.commit, manifest.anchor.generation == announcement.generation else {
                break
            }
            try store.removeAll(except: id, keepingAnchor: true)
            try store.insert(id, manifest)
            // Those of a checkpoint before are not wanted any more.
            try remote.forgetQuarantinedOfCheckpoints(db)
            return try store.checkpoint(id)
        }
        try quarantine(id, reason)
        return nil
    }

    func store(
        _ found: Inbox.Found, _ number: Int, _ id: ObjectID, of announcement: Acknowledgement.Announcement
    ) throws -> Bool {
        var reason = "it is another part of a checkpoint"
        switch found {
        case .refused(let refusal): reason = refusal
        case .commit(let content):
            let part: CheckpointPart
            do {
                part = try CheckpointPart(encoded: content.canonical[...])
            } catch {
                reason = "\(error)"
                break
            }
            guard part.commit == announcement.commit, Int(part.number) == number else { break }
            try store.insertPart(content.canonical, number, of: announcement.manifest)
            try forget(id)
            return true
        }
        try quarantine(id, reason)
        return false
    }

    private func quarantine(_ id: ObjectID, _ reason: String) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.\(SyncTables.quarantine) (remote, id, reason) VALUES (?, ?, ?)",
            arguments: [remote.n, Data(id.bytes), RemoteState.ofCheckpoint + reason])
    }

    private func forget(_ id: ObjectID) throws {
        try db.execute(
            sql: "DELETE FROM main.\(SyncTables.quarantine) WHERE remote = ? AND id = ?",
            arguments: [remote.n, Data(id.bytes)])
    }
}
