import CipherDatabase
import Foundation

/// Exchanges the commits of a repository with a remote.
///
/// ```swift
/// let manager = SyncManager(repository, remote: DirectoryRemote(path: "/mnt/share", repository: try repository.id))
/// try await manager.setup()
/// try await manager.sync()
/// ```
///
/// Every call may fail, be cancelled or killed at any place, and be repeated: what a remote has acknowledged is noted after
/// it has, and what was fetched is stored before the cursor passes it. Where several processes of a store call, they take
/// turns; any of them may commit meanwhile.
public final class SyncManager: Sendable {
    public let repository: ChangesetRepository
    public let remote: any SyncRemote
    let watchers = StatusWatchers()
    let turnLimit: Duration

    public convenience init(_ repository: ChangesetRepository, remote: any SyncRemote) {
        self.init(repository, remote: remote, turnLimit: Limits.turnWait)
    }

    /// - Parameter turnLimit: The longest wait for another manager of the store.
    init(_ repository: ChangesetRepository, remote: any SyncRemote, turnLimit: Duration) {
        (self.repository, self.remote, self.turnLimit) = (repository, remote, turnLimit)
    }

    var writer: any DatabaseWriter { repository.writer }

    // MARK: Setting up

    /// Makes the remote one of this store. Everything that the store has is to be pushed to it.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`; `.otherRepository` where the remote is for another one.
    public func setup() async throws {
        try await inTransaction { db, remote in
            let transaction = try RepositoryTransaction(db)
            guard transaction.state.repository == remote.repository else { throw SyncError(.otherRepository) }
            try SyncTables.create(db)
            if try remote.compaction == nil && CheckpointStore(db: db).anchor() != nil {
                throw SyncError(.checkpointUnsupported)
            }
            if try RemoteState(named: remote.name, db) == nil { try RemoteState.create(remote.name, db) }
        }
    }

    /// Reads the remote from its beginning again, and pushes everything again, under a new name for the log of this store:
    /// for a remote that was emptied, restored or exchanged. Rows and commits stay.
    public func reset() async throws {
        try await inTransaction { db, remote in
            try RemoteState.require(remote.name, db).remove(db)
            try RemoteState.create(remote.name, db)
        }
    }

    // MARK: All at once

    /// Fetches, merges, pulls and pushes. What others of this store commit meanwhile is merged as well, or stays for the
    /// next call.
    ///
    /// Where the fetch fails, or the rows cannot be moved, as before an update of the program (`.schemaAhead`), what this
    /// store has is pushed all the same, and the error is thrown after that. Only a remote that is another one, or does not
    /// know this version or this history, gets nothing.
    /// - Returns: The new head; nil where it is the same as before.
    /// - Throws: ``SyncFailure`` where the push fails as well, for another reason; as ``fetch()``,
    ///   ``ChangesetRepository/mergeAll()``, ``ChangesetRepository/pull()`` and ``push()``.
    @discardableResult
    public func sync() async throws -> Changeset? {
        try await inTurn {
            let repository = repository
            if case .failure(let failure) = await Result(of: { try await self.fetchAll() }) {
                throw await pushOnly(after: failure)
            }
            let head = await Result { try await outsideTasks { try repository.mergeAndPull() } }
            if case .failure(let failure) = await Result(of: { try await self.pushAll() }) {
                guard case .failure(let first) = head else { throw failure }
                throw SyncFailure.joining(first, failure)
            }
            // Of the library's errors those that last are in the summary; what a block of the program throws is not.
            if case .failure(let error) = head, !(error is SyncError), !(error is CancellationError) {
                _ = await Result { [error] in try await self.note("\(error)") }
                emitStatus()
            }
            return try head.get()
        }
    }

    /// Pushes what this store has, though a fetch has failed: it may be nowhere else.
    ///
    /// - Returns: The error of the fetch, with that of the push where it has failed for another reason.
    package func pushAfter(failedFetch failure: any Error) async -> any Error {
        // Before its turn is waited for: the fetch may have failed because another process has it.
        if SyncFailure.forbidsPush(failure) { return failure }
        let result = await Result { try await inTurn { await pushOnly(after: failure) } }
        return (try? result.get()) ?? failure
    }

    private func pushOnly(after failure: any Error) async -> any Error {
        guard !SyncFailure.forbidsPush(failure), let status = try? status(), status.ahead > 0 else { return failure }
        var error = failure
        if case .failure(let other) = await Result(of: { try await self.pushAll() }) {
            error = SyncFailure.joining(failure, other)
        }
        // The push has noted its own outcome.
        _ = await Result { [error] in try await self.note("\(error)") }
        emitStatus()
        return error
    }

    // MARK: Pushing

    /// Puts what the remote does not have yet, parents before children.
    ///
    /// - Returns: The number of commits that the remote has acknowledged.
    /// - Throws: ``RemoteError``; ``SyncError`` `.collision`, `.notEnabled`; `CancellationError`; `StoreError`
    ///   `.storeInUse` where another process of the store syncs for longer than a minute.
    @discardableResult
    public func push() async throws -> Int { try await inTurn { try await pushAll() } }

    func pushAll() async throws -> Int {
        try await reporting {
            try await self.register()
            let count = try await self.pushOutbox()
            try await self.acknowledge()
            return count
        } isProof: { count in
            // Where nothing was to be pushed, the error of a fetch still holds.
            count > 0
        }
    }

    private func pushOutbox() async throws -> Int {
        var (count, replaced) = (0, Set<ObjectID>())
        while true {
            try Task.checkCancellation()
            let step = try await self.pushBatch()
            count += step.acknowledged
            if let failure = step.collision {
                // Once for each object.
                guard let id = step.occupied, replaced.insert(id).inserted else { throw failure }
                let isRemoved = try await self.removeDamaged(id)
                if !isRemoved { throw failure }
            } else if step.acknowledged == 0 {
                return count
            }
        }
    }

    /// What came of one batch of the outbox.
    private struct PushStep {
        var acknowledged = 0
        var collision: SyncError?
        /// The object in whose place another one stands.
        var occupied: ObjectID?
    }

    private func pushBatch() async throws -> PushStep {
        let batch = try await nextBatch()
        guard let last = batch.last else { return PushStep() }
        let results = try await remote.put(batch.flatMap(\.objects))
        let done = Outbox.acknowledged(batch, results)
        try await remove(through: done, of: last.remote)
        return PushStep(
            acknowledged: done, collision: Outbox.collision(batch, results), occupied: Outbox.occupied(batch, results))
    }

    /// Removes an object that stands in the place of one to be pushed, if it is damaged: nobody can open it.
    ///
    /// - Returns: Whether it was removed.
    private func removeDamaged(_ id: ObjectID) async throws -> Bool {
        let isWhole = try await isWhole(id)
        return isWhole ? false : try await remove(id)
    }

    private func isWhole(_ id: ObjectID) async throws -> Bool {
        let key = try await writer.read { try RepositoryState.key($0) }
        let objects = try await remote.get([id])
        return objects.contains { $0.id == id && (try? key.open($0.bytes, id: id)) != nil }
    }

    // Swift 6.3.1, optimized: the process was aborted ("freed pointer was not the last allocation") where an optional
    // existential was bound before other calls that wait.
    private func remove(_ id: ObjectID) async throws -> Bool {
        guard let compaction = remote.compaction else { return false }
        try await compaction.delete([id], through: RemoteCursor(), except: [])
        return true
    }

    private func nextBatch() async throws -> [Outbox.Item] {
        let name = remote.name
        return try await writer.read { db in
            try Outbox(db: db, remote: RemoteState.require(name, db)).next()
        }
    }

    private func remove(through count: Int, of batch: Outbox.Place) async throws {
        guard count > 0 else { return }
        try await inTransaction { db, remote in
            // The repository may have been reset meanwhile: then the numbers are those of other commits.
            guard var state = try RemoteState(named: remote.name, db), state.pusher == batch.pusher else { return }
            // What the remote has acknowledged must be there from now on.
            let log = try state.log(db)
            for sequence in batch.first..<(batch.first + Int64(count)) {
                state.cursor.advance(after: LogPosition(author: log, sequence: UInt64(clamping: sequence)))
            }
            try state.save(db)
            try db.execute(
                sql: "DELETE FROM main.\(SyncTables.outbox) WHERE remote = ? AND sequence < ?",
                arguments: [batch.remote, batch.first + Int64(count)])
        }
    }

    // MARK: Fetching

    /// Stores what is new at the remote. The rows of the program stay as they are: ``ChangesetRepository/mergeAll()`` and
    /// ``ChangesetRepository/pull()`` take it up.
    ///
    /// An object that is damaged or forged is set aside and asked for again by the next fetch; a commit whose parents have
    /// not come yet waits for them.
    /// - Returns: The number of new commits.
    /// - Throws: ``RemoteError``; ``SyncError`` `.notEnabled`; `CancellationError`; `StoreError` `.storeInUse` as
    ///   ``push()``. What was stored before stays.
    @discardableResult
    public func fetch() async throws -> Int { try await inTurn { try await fetchAll() } }

    func fetchAll() async throws -> Int { try await reporting { try await self.fetchLogs() } }

    private func fetchLogs() async throws -> Int {
        let hasBase = try await takeUpCheckpoint()
        if !hasBase { return 0 }
        var count = try await fetchQuarantined()
        var awaited = try await pendingCommits()
        var isFirst = true
        while true {
            try Task.checkCancellation()
            let step = try await fetchPage(awaiting: awaited, isFirst: isFirst)
            isFirst = false
            count += step.commits
            if step.hasMore { continue }
            if !step.isObstructed {
                // A log that was read before another one may have got what that builds on.
                let pending = try await pendingCommits()
                if pending.isSubset(of: awaited) {
                    let found = try await fetchMissing()
                    if found == 0 { return count }
                    count += found
                }
                awaited = pending
                continue
            }
            // What is missing may be what another replica removes now, for a checkpoint.
            let former = try await remoteState().cursor
            let isThere = try await takeUpCheckpoint()
            if !isThere { return count }
            let cursor = try await remoteState().cursor
            if cursor != former { continue }
            if let error = step.error { throw error }
            return count
        }
    }

    /// What came of one page of the logs.
    private struct FetchStep {
        var commits = 0
        var hasMore = false
        /// Whether something is listed, or is known to be there, and cannot be read.
        var isObstructed = false
        /// Why the page could not be listed: an entry up to the cursor is gone.
        var error: RemoteError?
    }

    /// A page of the logs, and what was known when it was listed.
    private struct ListedPage {
        let page: RemotePage
        /// Under whose name the store pushed.
        let pusher: AuthorID
        /// The commits that have waited since before the logs were read.
        let awaited: Set<CommitID>
    }

    /// The commits that wait for a parent.
    private func pendingCommits() async throws -> Set<CommitID> {
        try await writer.read { db in try Inbox(db: db).pending() }
    }

    /// - Parameters:
    ///   - awaited: The commits that have waited since before the logs were read.
    ///   - isFirst: Whether it is the first page of a fetch.
    private func fetchPage(awaiting awaited: Set<CommitID>, isFirst: Bool) async throws -> FetchStep {
        let state = try await remoteState()
        let listed: Result<RemotePage, RemoteError>
        if isFirst { listed = try await listFirst(state) } else { listed = try await list(after: state.cursor) }
        let page: RemotePage
        switch listed {
        case .success(let found): page = found
        case .failure(let error): return FetchStep(isObstructed: true, error: error)
        }
        var step = FetchStep()
        var left = try await unknown(page.entries.map(\.id))
        repeat {
            let opened = try await open(left, upTo: Limits.bytesAtOnce)
            left = opened.left
            let part = ListedPage(page: page.without(Set(left)), pusher: state.pusher, awaited: awaited)
            let stored = try await store(opened.found, of: part)
            step.commits += stored.commits
            // Where the cursor does not move, further pages would be the same. The first one begins before it.
            step.hasMore = page.hasMore && (step.hasMore || stored.hasAdvanced || isFirst)
            step.isObstructed = !page.stalled.isEmpty || !stored.isWhole
        } while !left.isEmpty
        return step
    }

    /// Lists a page, and verifies that the remote still has the last commit that this store has pushed there: a folder may
    /// have lost its objects, and kept the entries of the logs.
    ///
    /// - Throws: ``RemoteError`` `.remoteRewound` where it has not.
    private func listFirst(_ state: RemoteState) async throws -> Result<RemotePage, RemoteError> {
        let log = try await writer.read { try state.log($0) }
        let last = LogPosition(author: log, sequence: state.cursor.sequence(of: log))
        if last.sequence == 0 { return try await list(after: state.cursor) }
        var cursor = state.cursor
        cursor.stepBack(log)
        let listed = try await list(after: cursor)
        if case .success(let page) = listed {
            if page.entries.contains(where: { $0.position == last }) { return listed }
            if case .objectMissing = page.stalled.first(where: { $0.position == last })?.reason {
                let acknowledgements = try await readAcknowledgements()
                let isReplaced = CheckpointStore.best(acknowledgements)?.replaced.contains(last) == true
                if !isReplaced { throw RemoteError.remoteRewound(remote: remote.name, missing: last) }
            }
        }
        // A checkpoint may have replaced the entry before it; or the entry itself is gone, which this notices.
        return try await list(after: state.cursor)
    }

    /// Lists a page of the logs; the failure is that an entry up to the cursor is gone.
    func list(after cursor: RemoteCursor) async throws -> Result<RemotePage, RemoteError> {
        switch await Result(of: { try await self.remote.list(after: cursor, limit: Limits.commitsAtOnce) }) {
        case .success(let page): return .success(page)
        case .failure(let error as RemoteError):
            guard case .remoteRewound = error else { throw error }
            return .failure(error)
        case .failure(let error): throw error
        }
    }

    /// Gets the commits for which others wait, by their names: the entry that named one may be gone.
    ///
    /// - Returns: The number of new commits.
    private func fetchMissing() async throws -> Int {
        var (count, asked) = (0, Set<CommitID>())
        while true {
            let missing = try await writer.read { db in try Inbox(db: db).missing() }
            // What has come may wait for another one.
            let ids = missing.filter { asked.insert($0).inserted }
            if ids.isEmpty { return count }
            let found = try await open(ids)
            count += try await store(found, of: nil).commits
        }
    }

    private func fetchQuarantined() async throws -> Int {
        let name = remote.name
        var (count, last) = (0, ObjectID?.none)
        while true {
            let ids = try await writer.read { [last] in try RemoteState.require(name, $0).quarantined(after: last, $0) }
            guard !ids.isEmpty else { return count }
            let found = try await open(ids)
            let stored = try await store(found, of: nil)
            count += stored.commits
            last = ids.last
        }
    }

    func remoteState() async throws -> RemoteState {
        let name = remote.name
        return try await writer.read { try RemoteState.require(name, $0) }
    }

    func unknown(_ ids: [ObjectID]) async throws -> [ObjectID] {
        try await writer.read { db in try Inbox(db: db).unknown(ids) }
    }

    /// Gets objects and decrypts them; each has what it contains, or why it was refused. What the remote does not return
    /// has no entry.
    func open(_ ids: [ObjectID]) async throws -> [ObjectID: Inbox.Found] {
        try await open(ids, upTo: .max).found
    }

    /// The same up to a number of bytes, and the objects that are left: they are stored in one transaction, which others
    /// wait for.
    private func open(
        _ ids: [ObjectID], upTo limit: Int
    ) async throws -> (found: [ObjectID: Inbox.Found], left: [ObjectID]) {
        let key = try await writer.read { try RepositoryState.key($0) }
        var (found, left): ([ObjectID: Inbox.Found], [ObjectID]) = ([:], [])
        var (rest, count, byteCount) = (ids[...], Limits.objectsAtOnce, 0)
        while !rest.isEmpty, byteCount < limit {
            try Task.checkCancellation()
            let wanted = Set(rest.prefix(count))
            let objects = try await remote.get(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            for object in objects where wanted.contains(object.id) {
                // The parts of a long commit are still at the remote.
                if let opened = try await open(object, key, assembling: byteCount < limit) {
                    found[object.id] = opened
                    byteCount += opened.byteCount
                } else {
                    left.append(object.id)
                }
            }
            // After short objects more of them are asked for.
            let longest = objects.lazy.map(\.bytes.count).max() ?? Limits.envelopeBytes
            count = min(max(Limits.objectsAtOnce, Limits.bytesAtOnce / max(1, longest)), Limits.commitsAtOnce)
        }
        return (found, left + rest)
    }

    // No call that waits stands where errors are caught: the optimizer of Swift 6.3 makes code of it that frees the memory
    // of a task in a wrong order, which ends the program.

    /// - Parameter assembling: Whether to get the parts of a long commit.
    /// - Returns: Nil for a long commit whose parts were not got.
    private func open(
        _ object: RemoteObject, _ key: RepositoryKey, assembling: Bool
    ) async throws -> Inbox.Found? {
        let manifest: CommitAssembly
        do {
            switch try key.open(object.bytes, id: object.id) {
            case .commit(let content): return .commit(content)
            case .chunk: return .refused("a part of a commit is in the place of a commit")
            case .manifest(let assembly): manifest = assembly
            }
        } catch let error as EnvelopeError {
            return .refused("\(error)")
        }
        return assembling ? try await assemble(manifest, key) : nil
    }

    /// Gets the parts of a long commit.
    private func assemble(_ manifest: CommitAssembly, _ key: RepositoryKey) async throws -> Inbox.Found {
        var assembly = manifest
        while let next = assembly.next {
            try Task.checkCancellation()
            let objects = try await remote.get([next])
            let refusal = try Self.refusal {
                guard let chunk = objects.first(where: { $0.id == next }) else {
                    throw EnvelopeError.chunkMissing(next, commit: manifest.id)
                }
                try assembly.add(chunk.bytes, with: key)
            }
            if let refusal { return .refused(refusal) }
        }
        var content: CommitContent?
        let refusal = try Self.refusal { content = try assembly.finish(with: key) }
        guard let content else { return .refused(refusal ?? "it cannot be put together") }
        return .commit(content)
    }

    /// Why what a remote returned is refused; nil where it is not.
    private static func refusal(_ body: () throws -> Void) throws -> String? {
        do {
            try body()
            return nil
        } catch let error as EnvelopeError {
            return "\(error)"
        }
    }

    /// Stores commits, and moves the cursor over the entries of a page, in one transaction.
    ///
    /// - Parameter listed: Nil for objects that are asked for again.
    private func store(
        _ found: [ObjectID: Inbox.Found], of listed: ListedPage?
    ) async throws -> (commits: Int, hasAdvanced: Bool, isWhole: Bool) {
        let page = listed?.page
        return try await inTransaction { db, remote in
            var state = try RemoteState.require(remote.name, db)
            let inbox = try Inbox(db: db)
            let (commits, replaced) = try inbox.store(found, from: state)
            let former = state.cursor
            var isWhole = true
            if let page {
                // No cursor passes an object that the remote did not return.
                for entry in page.entries {
                    let isHandled = try replaced.contains(entry.id) || inbox.isHandled(entry.id, state)
                    if isHandled { state.cursor.advance(after: entry.position) } else { isWhole = false }
                }
                let logs = StalledLogs(db: db)
                try logs.note(page.stalled, at: state.n)
                state.stalled = try logs.awaited(at: state.n).count
                // Where another process has reset the exchange since, the logs are to be read again.
                if !page.hasMore, state.pusher == listed?.pusher { state.hasBeenRead = true }
                if !page.hasMore, state.stalled == 0, isWhole {
                    try inbox.quarantineUnreachable(among: listed?.awaited ?? [], at: state.n)
                }
            }
            try state.save(db)
            // With commits of its own the store has got another name.
            let present = try RemoteState.require(remote.name, db)
            if let page, try present.isOvertaken(by: page.entries, db) { try RemoteState.beginNewLogs(db) }
            return (commits, state.cursor != former, isWhole)
        }
    }

    // MARK: Transactions

    func inTransaction<T: Sendable>(
        _ body: @escaping @Sendable (Database, any SyncRemote) throws -> T
    ) async throws -> T {
        let remote = remote
        return try await writer.writeWithoutTransaction { db in
            try ChangesetRepository.inTransaction(db) { try body(db, remote) }
        }
    }

    /// Notes the error of a call, or that there was none, for ``status()``.
    ///
    /// - Parameter isProof: Whether a call that has succeeded shows that the last error does not hold any more.
    func reporting<T>(
        _ body: () async throws -> T, isProof: @Sendable (T) -> Bool = { _ in true }
    ) async throws -> T {
        defer { emitStatus() }
        let result = await Result {
            let result = try await body()
            if isProof(result) { try await note(nil) }
            return result
        }
        if case .failure(let error) = result, !(error is CancellationError) {
            _ = await Result { try await note("\(error)") }
        }
        return try result.get()
    }

    private func note(_ error: String?) async throws {
        let name = remote.name
        let former = try await writer.read { try RemoteState.require(name, $0).error }
        guard former != error else { return }
        try await inTransaction { db, remote in
            try db.execute(
                sql: "UPDATE main.\(SyncTables.remote) SET error = ? WHERE name = ?", arguments: [error, remote.name])
        }
    }
}

extension RemotePage {
    /// The page as far as it can be stored, where some of its objects are not here yet.
    fileprivate func without(_ missing: Set<ObjectID>) -> RemotePage {
        if missing.isEmpty { return self }
        return RemotePage(
            entries: entries.filter { !missing.contains($0.id) }, next: next, hasMore: true, stalled: stalled)
    }
}
