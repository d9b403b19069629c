import CipherDatabase
import Foundation

/// How replicas tell each other, by way of a remote, up to where they are.
///
/// A replica makes itself known before it looks for checkpoints, and looks before it pushes. Whoever makes a checkpoint
/// announces it, and then looks whether somebody has come. So one of the two always sees the other.
extension SyncManager {
    /// Reads what the replicas say, and keeps it. A store that others have retired goes on under another name.
    @discardableResult
    func readAcknowledgements() async throws -> [Acknowledgement] {
        guard let compaction = remote.compaction else { return [] }
        let key = try await writer.read { try RepositoryState.key($0) }
        let sealed = try await compaction.acknowledgements()
        let read = try sealed.compactMap { try Acknowledgement($0, with: key) }
        let found = try await writer.read { db in try CheckpointStore(db: db).possible(read) }
        let name = remote.name
        let hasNews = try await writer.read { try AcknowledgementNotes(db: $0, name: name).hasNews(found) }
        if hasNews { try await inTransaction { db, _ in try AcknowledgementNotes(db: db, name: name).note(found) } }
        return found
    }

    /// Makes this replica known, and throws where what it would push cannot be used any more.
    func register() async throws {
        guard remote.compaction != nil else {
            let hasAnchor = try await writer.read { try CheckpointStore(db: $0).anchor() != nil }
            if hasAnchor { throw SyncError(.checkpointUnsupported) }
            return
        }
        let name = remote.name
        var found = try await readAcknowledgements()
        let own = try await writer.read { try AcknowledgementNotes(db: $0, name: name).own() }
        let pusher = try await writer.read { db in try RemoteState.require(name, db).log(db) }
        let present = own.flatMap { own in found.first { $0.author == own.author } }
        // A remote that was restored from a backup may have lost it.
        if own != nil && present == nil { try await requireLogs() }
        // Whoever makes a checkpoint looks for logs that have begun meanwhile.
        if present?.pusher != pusher {
            let first = try await writer.read { [found] db in
                try AcknowledgementNotes(db: db, name: name).next(found, isComplete: false)
            }
            if let first { try await put(first) }
            found = try await readAcknowledgements()
        }
        try await putOwnCheckpoint(unlessKnownBy: found)
        try await requireBase(found, beforePush: true)
    }

    /// Throws where the remote has lost what this store has read or put there. A remote that was emptied gets nothing: what
    /// this store has said of its logs is not true any more.
    @inline(never)
    private func requireLogs() async throws {
        let state = try await remoteState()
        let listed = try await list(after: state.cursor)
        if case .failure(let error) = listed { throw error }
    }

    /// Says up to where this store is, where that is not known at the remote yet. While something is still to be pushed
    /// it says what it has said before.
    ///
    /// - Parameter prepared: The checkpoint that it is about to announce; nil takes back what it has prepared.
    func acknowledge(preparing prepared: Acknowledgement.Announcement? = nil) async throws {
        guard remote.compaction != nil else { return }
        let name = remote.name
        let next = try await writer.read { db in
            let notes = AcknowledgementNotes(db: db, name: name)
            var next = try notes.next([], isComplete: true) ?? notes.own()
            next?.prepared = prepared
            return try notes.own().map { $0.isSame(as: next) } == true ? nil : next
        }
        guard let next else { return }
        // Where the process ends, or the answer is lost, the next call sees that something is to be taken back.
        if prepared != nil { try await note(next) }
        try await put(next)
    }

    func put(_ acknowledgement: Acknowledgement) async throws {
        guard let compaction = remote.compaction else { return }
        let key = try await writer.read { try RepositoryState.key($0) }
        try await compaction.acknowledge(acknowledgement.sealed(with: key))
        try await note(acknowledgement)
    }

    private func note(_ acknowledgement: Acknowledgement) async throws {
        try await inTransaction { db, remote in
            try CheckpointStore(db: db).note(acknowledgement, at: RemoteState.require(remote.name, db).n)
        }
    }

    /// Throws where commits that are to be pushed, or the whole history, do not build on the latest checkpoint.
    func requireBase(_ found: [Acknowledgement], beforePush: Bool) async throws {
        guard let latest = CheckpointStore.best(found) else {
            return try await requireNothingPrepared(found, beforePush)
        }
        let name = remote.name
        let isReplaced = try await writer.read { db in
            try OutboxCheck(db: db, remote: RemoteState.require(name, db)).replaced(by: latest)
        }
        if !isReplaced.isEmpty {
            // What was to be pushed again after a reset, and is in the checkpoint.
            try await inTransaction { db, _ in
                // Another remote may not have them.
                let remote = try RemoteState.require(name, db).n
                for n in isReplaced {
                    try db.execute(
                        sql: "DELETE FROM main.\(SyncTables.outbox) WHERE remote = ? AND n = ?", arguments: [remote, n])
                }
                try RemoteState.beginNewLog(at: remote, db)
            }
        }
        try await requireNothingPrepared(found, beforePush)
    }

    private func requireNothingPrepared(_ found: [Acknowledgement], _ beforePush: Bool) async throws {
        guard beforePush else { return }
        let name = remote.name
        try await writer.read { db in
            let state = try RepositoryState(db)
            let retired = Set(try CheckpointStore(db: db).replicas().filter(\.isRetired).map(\.author))
            for other in found where other.author != state.author && !retired.contains(other.author) {
                guard let prepared = other.prepared else { continue }
                let check = OutboxCheck(db: db, remote: try RemoteState.require(name, db))
                if try check.fits(prepared) { continue }
                throw SyncError(
                    .checkpointPending, commit: prepared.commit,
                    "Replica \(other.author) is making one. If it does not come back, retire it.")
            }
        }
    }

    // MARK: Retiring

    /// Says that a replica does not come back: checkpoints do not wait for it any more. Where it does come back, it goes on
    /// under another name, and ``rejoin(meta:)`` keeps its work.
    ///
    /// - Throws: ``SyncError`` `.unknownReplica` where it has acknowledged nothing at this remote, or is this store;
    ///   `.checkpointUnsupported`; as ``push()``.
    public func retire(_ replica: AuthorID) async throws {
        guard remote.compaction != nil else { throw SyncError(.checkpointUnsupported) }
        try await inTurn {
            _ = try await reporting({ try await self.readAcknowledgements() }, isProof: { _ in false })
            // A name that is wrong says nothing of the exchange with the remote.
            let next = try await inTransaction { db, remote in
                let (state, store) = (try RemoteState.require(remote.name, db), CheckpointStore(db: db))
                let isKnown = try store.replicas().contains { $0.remote == state.n && $0.author == replica }
                guard isKnown, try RepositoryState(db).author != replica else { throw SyncError(.unknownReplica) }
                try store.noteRetired(replica, at: state.n)
                return try AcknowledgementNotes(db: db, name: remote.name).next([], isComplete: false)
            }
            if let next { try await reporting({ try await self.put(next) }, isProof: { _ in false }) }
        }
    }
}

extension Acknowledgement {
    /// The same of a store that pushes in a log of its own, where it has not pushed anything into another one yet.
    fileprivate func pushing(in log: AuthorPseudonym) -> Acknowledgement {
        if pusher == log { return self }
        var moved = Acknowledgement(author: author, sequence: sequence, pusher: log, head: head, time: time)
        (moved.retired, moved.checkpoint, moved.prepared) = (retired, checkpoint, prepared)
        return moved
    }

    /// Whether both say the same, whenever it was said.
    func isSame(as other: Acknowledgement?) -> Bool {
        guard var other else { return true }
        other.time = time
        return self == other
    }
}

/// What a store keeps of acknowledgements at one remote. Inside a transaction.
struct AcknowledgementNotes {
    let db: Database
    let name: String
    private var store: CheckpointStore { CheckpointStore(db: db) }

    /// What this store has put at the remote last; nil where it is not known there under its name.
    func own() throws -> Acknowledgement? {
        let (author, remote) = (try RepositoryState(db).author, try RemoteState.require(name, db).n)
        return try store.replicas().first { $0.remote == remote && $0.author == author }?.acknowledgement
    }

    private func retired(_ found: [Acknowledgement]) throws -> Set<AuthorID> {
        Set(found.flatMap(\.retired)).union(try store.replicas().filter(\.isRetired).map(\.author))
    }

    func hasNews(_ found: [Acknowledgement]) throws -> Bool {
        let (author, remote) = (try RepositoryState(db).author, try RemoteState.require(name, db).n)
        let known = try store.replicas().filter { $0.remote == remote }
        let byAuthor = Dictionary(known.map { ($0.author, $0) }, uniquingKeysWith: { first, _ in first })
        return try retired(found).contains { $0 == author || byAuthor[$0]?.isRetired != true }
            || found.contains { $0.author != author && byAuthor[$0.author]?.acknowledgement != $0 }
    }

    func note(_ found: [Acknowledgement]) throws {
        let (state, remote) = (try RepositoryState(db), try RemoteState.require(name, db).n)
        for other in found where other.author != state.author { try store.note(other, at: remote) }
        let retired = try retired(found)
        for author in retired { try store.noteRetired(author, at: remote) }
        if retired.contains(state.author) { try state.withNewAuthor(db).save(db) }
    }

    /// The commit that nothing lacks which comes to a remote by way of this store: that of its rows, or the last one that
    /// the stores of other remotes have as well. They know nothing of a checkpoint there.
    private func head(_ state: RepositoryState, at remote: Int64) throws -> CommitID? {
        // Before another remote was read to its end, nobody knows who is there.
        let isUnread = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(SyncTables.remote) WHERE n <> ? AND stalled < 0)",
            arguments: [remote])
        guard let head = state.head, isUnread == false else { return nil }
        let (commits, replicas) = (CommitStore(db: db), try store.replicas())
        let excepted = Set(replicas.filter { $0.remote == remote || $0.isRetired }.map(\.author) + [state.author])
        var heads: Set<Int64> = [head]
        for replica in replicas where !excepted.contains(replica.author) {
            guard let other = try replica.acknowledgement?.head.flatMap(commits.node) else { return nil }
            heads.insert(other.n)
        }
        if heads.count == 1 { return try commits.node(head).id }
        return try CommitGraph(commits).dominator(of: heads) { _, _ in true }?.id
    }

    /// What this store has to say.
    ///
    /// - Parameters:
    ///   - found: What the remote has, of which nothing that is announced may be forgotten.
    ///   - isComplete: Whether it says how far it is; otherwise that stays as it is.
    /// - Returns: Nil where something is still to be pushed, and nothing can be said of that.
    func next(_ found: [Acknowledgement], isComplete: Bool) throws -> Acknowledgement? {
        let (state, remote) = (try RepositoryState(db), try RemoteState.require(name, db))
        let key = try db.syncSession.key(state, db)
        let pusher = try remote.pusher.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        let known = try store.replicas().filter { $0.remote == remote.n }
        var next = try own()?.pushing(in: pusher) ?? Acknowledgement(author: state.author, pusher: pusher)
        if isComplete {
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT sequence, EXISTS (SELECT 1 FROM main.\(SyncTables.outbox) WHERE remote = ?1)
                    FROM main.\(SyncTables.remote) WHERE n = ?1
                    """,
                arguments: [remote.n])
            guard let row, try !row.stored(1, as: Bool.self) else { return nil }
            next = Acknowledgement(author: state.author, pusher: pusher)
            next.sequence = state.sequence
            next.pushed = UInt64(clamping: try row.stored(0, as: Int64.self))
            next.head = try head(state, at: remote.n)
        }
        next.time = UInt64(max(0, min(try db.transactionDate.timeIntervalSince1970 * 1000, 9e15)))
        next.retired = try retired(found).sorted()
        next.checkpoint = CheckpointStore.best(known.compactMap(\.acknowledgement) + found)
        next.prepared = nil
        return next
    }
}

/// Looks whether what is to be pushed, and what the rows are the state of, builds on a checkpoint. Inside a transaction.
struct OutboxCheck {
    let db: Database
    let remote: RemoteState

    /// Whether everything builds on a checkpoint, and nothing is pushed that it is to replace.
    func fits(_ checkpoint: Acknowledgement.Announcement) throws -> Bool {
        do {
            return try replaced(by: checkpoint).isEmpty
        } catch let error as SyncError where error.code == .baseTooOld {
            return false
        }
    }

    /// - Returns: Commits that are to be pushed, and that the checkpoint has replaced.
    /// - Throws: ``SyncError`` `.baseTooOld` where others do not build on it, or commits of the rows do not: others refuse
    ///   them, although they were pushed.
    func replaced(by checkpoint: Acknowledgement.Announcement) throws -> [Int64] {
        let wanted = try Int64.fetchAll(
            db, sql: "SELECT n FROM main.\(SyncTables.outbox) WHERE remote = ?", arguments: [remote.n])
        let (store, graph) = (CommitStore(db: db), CommitGraph(CommitStore(db: db)))
        guard let floor = try store.node(checkpoint.commit) ?? CheckpointStore(db: db).anchor(after: checkpoint) else {
            if wanted.isEmpty { return [] }
            throw SyncError(.baseTooOld, commit: checkpoint.commit)
        }
        if try hasWork(beside: floor, graph) { throw SyncError(.baseTooOld, commit: checkpoint.commit) }
        if wanted.isEmpty { return [] }
        func isAbove(_ node: CommitNode) throws -> Bool {
            try !node.parents.isEmpty
                && node.parents.map(graph.node).allSatisfy { $0.n == floor.n || $0.generation > floor.generation }
        }
        let others = try wanted.map(graph.node).filter { try !isAbove($0) }
        if others.isEmpty { return [] }
        let under = try graph.ancestors(of: floor.n, notBelow: 0)
        guard others.allSatisfy({ under.contains($0.n) || $0.kind == .merge }) else {
            throw SyncError(.baseTooOld, commit: checkpoint.commit)
        }
        return others.map(\.n)
    }

    /// Whether a commit under the head is beside the commit of a checkpoint: it was pushed before anybody saw that the two
    /// do not fit. The first one of a line beside it has a parent below it, so it is no later than the checkpoint itself.
    private func hasWork(beside floor: CommitNode, _ graph: CommitGraph) throws -> Bool {
        // What is below an anchor is on its way out.
        guard floor.kind != .checkpoint, let head = try RepositoryState(db).head else { return false }
        let early = try Int64.fetchAll(
            db, sql: "SELECT n FROM main.\(SyncTables.commit) WHERE generation <= ? AND kind = ?",
            arguments: [Int64(clamping: floor.generation), Int(Commit.Kind.ordinary.rawValue)])
        let under = try graph.ancestors(of: floor.n, notBelow: 0)
        let beside = early.filter { $0 != floor.n && !under.contains($0) }
        if beside.isEmpty { return false }
        let ofHead = try graph.ancestors(of: head, notBelow: 0)
        return beside.contains { ofHead.contains($0) || $0 == head }
    }
}
