import CipherDatabase
import Foundation

/// Stores what comes from remotes. Nothing of it is believed: a commit is stored when its identifier, its place in the
/// graph and its time are those of its canonical bytes. Inside a transaction.
///
/// What is looked at for each commit is read once for all of them, so there are many for each: the state of the repository,
/// which is saved when all are stored, and whether tables have anything at all.
final class Inbox {
    let db: Database
    /// The commit on which all new ones build.
    private let floor: (commit: CommitID, generation: UInt64)?
    /// The commit that stands for a checkpoint here. What is below it is on its way out.
    private let anchor: CommitNode?
    private let store: CommitStore
    private var state: RepositoryState
    private var isStateChanged = false
    /// Whether commits wait for others, objects are set aside, and there are other remotes to push to.
    private var hasPending: Bool
    private var hasQuarantined: Bool
    private let hasSeveralRemotes: Bool
    /// What was inserted.
    private var nodes: [CommitID: CommitNode] = [:]
    private var numbers: [AuthorID: Int64] = [:]
    private var pseudonyms: [AuthorID: AuthorPseudonym] = [:]

    init(db: Database) throws {
        self.db = db
        (store, state) = (CommitStore(db: db), try RepositoryState(db))
        (floor, anchor) = (try CheckpointStore(db: db).floor(), try CheckpointStore(db: db).anchor())
        func has(_ sql: String) throws -> Bool { try Bool.fetchOne(db.cachedStatement(sql: "SELECT \(sql)")) == true }
        hasPending = try has("EXISTS (SELECT 1 FROM main.\(SyncTables.pending))")
        hasQuarantined = try has("EXISTS (SELECT 1 FROM main.\(SyncTables.quarantine))")
        hasSeveralRemotes = try has("(SELECT count(*) FROM main.\(SyncTables.remote)) > 1")
    }

    /// What a remote returned under an identifier.
    enum Found: Sendable {
        case commit(CommitContent)
        case refused(String)

        var byteCount: Int { if case .commit(let content) = self { content.canonical.count } else { 0 } }

        /// The place in the order in which commits are stored: after their parents.
        fileprivate var generation: UInt64 { if case .commit(let content) = self { content.generation } else { 0 } }
    }

    /// Those that are neither stored nor wait for their parents.
    func unknown(_ ids: [ObjectID]) throws -> [ObjectID] {
        var seen: Set<ObjectID> = []
        return try ids.filter { try seen.insert($0).inserted && !isStored($0) && !isPending($0) }
    }

    private func isStored(_ id: CommitID) throws -> Bool { try node(id) != nil }

    private func node(_ id: CommitID) throws -> CommitNode? {
        guard let node = try nodes[id] ?? store.node(id) else { return nil }
        if let anchor, node.n != anchor.n, node.generation <= anchor.generation { return nil }
        return node
    }

    private func isPending(_ id: CommitID) throws -> Bool {
        guard hasPending else { return false }
        let statement = try db.cachedStatement(sql: "SELECT 1 FROM main.\(SyncTables.pending) WHERE id = ?")
        return try Int.fetchOne(statement, arguments: [Data(id.bytes)]) != nil
    }

    /// Whether the cursor may pass an entry.
    func isHandled(_ id: ObjectID, _ remote: RemoteState) throws -> Bool {
        if try isStored(id) || isPending(id) { return true }
        guard hasQuarantined else { return false }
        let count = try Int.fetchOne(
            db, sql: "SELECT count(*) FROM main.\(SyncTables.quarantine) WHERE remote = ? AND id = ?",
            arguments: [remote.n, Data(id.bytes)])
        return count == 1
    }

    /// - Returns: The number of new commits in the graph, and the objects that a checkpoint has replaced.
    func store(
        _ found: [ObjectID: Found], from remote: RemoteState
    ) throws -> (commits: Int, replaced: Set<ObjectID>) {
        var (count, replaced): (Int, Set<ObjectID>) = (0, [])
        // Parents first: a commit that comes before them waits for them.
        let ordered = found.sorted {
            let (one, other) = ($0.value.generation, $1.value.generation)
            return one == other ? $0.key < $1.key : one < other
        }
        for (id, object) in ordered {
            do {
                switch object {
                case .refused(let reason): throw Refusal(reason: reason)
                case .commit(let content):
                    if let new = try take(content, id, from: remote) { count += new } else { replaced.insert(id) }
                }
                if hasQuarantined {
                    try db.execute(
                        sql: "DELETE FROM main.\(SyncTables.quarantine) WHERE remote = ? AND id = ?",
                        arguments: [remote.n, Data(id.bytes)])
                }
            } catch let refusal as Refusal {
                try quarantine(id, refusal.reason, remote.n)
            }
        }
        count += try insertReady(from: remote.n)
        try saveState()
        return (count, replaced)
    }

    /// Saves the state with the commits that are no parent now. Until then it cannot be read.
    private func saveState() throws {
        guard isStateChanged else { return }
        isStateChanged = false
        try state.save(db, leaves: state.leaves)
    }

    /// Why a commit is set aside that builds on what a checkpoint has replaced.
    static let baseIsReplaced = "a checkpoint has replaced what it builds on: its author must rejoin"

    /// Why an object is set aside.
    private struct Refusal: Error {
        let reason: String
    }

    /// - Returns: The number of new commits; nil where a checkpoint has replaced it.
    private func take(_ content: CommitContent, _ id: CommitID, from remote: RemoteState) throws -> Int? {
        if try isStored(id) || isPending(id) { return 0 }
        let commit = try read(content)
        if try isReplaced(commit) { return nil }
        try requireBase(commit)
        if let missing = try commit.parents.first(where: { try !isStored($0) }) {
            try wait(id, for: missing, content.canonical)
            return 0
        }
        return try insert(commit, id, content.canonical, from: remote.n)
    }

    /// Whether a checkpoint that is here has what a commit did: another remote still has its history.
    ///
    /// A store that was restored from a backup may have given the number of the commit again. It gets an error itself
    /// (`.baseTooOld`), and keeps its work.
    private func isReplaced(_ commit: Commit) throws -> Bool {
        guard let floor else { return false }
        // Of a later one only the announcement may be here.
        let checkpoints = CheckpointStore(db: db)
        let stored = try checkpoints.checkpoint(ofCommit: floor.commit) ?? checkpoints.checkpointOfAnchor()
        guard let manifest = stored?.manifest,
            manifest.replaces(
                commit.kind, generation: commit.generation, sequence: commit.authorSequence, author: commit.author)
        else { return false }
        return try commit.kind == .ordinary || !commit.parents.allSatisfy(isStored)
    }

    /// Refuses what a replica has made before it knew of the checkpoint: nobody could merge it.
    private func requireBase(_ commit: Commit) throws {
        guard let floor else { return }
        let parents = try commit.parents.map(node)
        // A merge has no work of its own; where its parents are, it does no harm.
        if commit.kind == .merge && parents.allSatisfy({ $0 != nil }) { return }
        let isAbove = parents.allSatisfy { parent in
            parent.map { $0.id == floor.commit || $0.generation > floor.generation } ?? true
        }
        // What is above it is above a child of it, or is one. Of a parent that is not here nothing else is known.
        let isChild = !commit.parents.isEmpty && commit.parents.allSatisfy { $0 == floor.commit }
        let lowest = floor.generation + (isChild ? 1 : 2)
        guard isAbove, commit.generation >= lowest else {
            throw Refusal(reason: Self.baseIsReplaced)
        }
    }

    /// The commit, where the header of its envelope says the same.
    private func read(_ content: CommitContent) throws -> Commit {
        let commit: Commit
        do {
            commit = try Commit(encoded: content.canonical[...])
            for index in commit.deltas.indices { _ = try commit.delta(fromParent: index) }
        } catch {
            throw Refusal(reason: "\(error)")
        }
        guard commit.parents == content.parents, commit.generation == content.generation,
            try pseudonym(commit.author) == content.author
        else {
            throw Refusal(reason: "what is readable of the commit is not what it contains")
        }
        return commit
    }

    private func pseudonym(_ author: AuthorID) throws -> AuthorPseudonym {
        if let known = pseudonyms[author] { return known }
        let key = try db.syncSession.key(state, db)
        let pseudonym =
            author == .none
            ? AuthorPseudonym.nobody : try author.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        pseudonyms[author] = pseudonym
        return pseudonym
    }

    private func number(_ author: AuthorID) throws -> Int64 {
        let number = try numbers[author] ?? store.number(of: author)
        numbers[author] = number
        return number
    }

    private func wait(_ id: CommitID, for missing: CommitID, _ canonical: [UInt8]) throws {
        hasPending = true
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.\(SyncTables.pending) (id, missing, body) VALUES (?, ?, ?)",
            arguments: [Data(id.bytes), Data(missing.bytes), Data(canonical)])
    }

    /// Inserts a commit whose parents are there, and those that have waited for it.
    private func insert(_ commit: Commit, _ id: CommitID, _ canonical: [UInt8], from remote: Int64) throws -> Int {
        try requirePlace(commit)
        try store(commit, id, canonical, from: remote)
        return try 1 + insertWaiting(for: id, from: remote)
    }

    /// - Parameter remote: The remote that has it; nil where that is not known, as of what has waited.
    private func store(_ commit: Commit, _ id: CommitID, _ canonical: [UInt8], from remote: Int64?) throws {
        if try !isStored(id) {
            let node = try store.insertNew(
                commit, id: id, canonical: canonical, parents: commit.parents.map { try requireNode($0).n },
                author: number(commit.author), nil)
            nodes[id] = node
            state.leaves.replace(node.parents, by: node.n)
            isStateChanged = true
            try noteAuthor(of: commit)
            try enqueue(node.n, except: remote)
        }
        try stopWaiting(id)
    }

    private func requireNode(_ id: CommitID) throws -> CommitNode {
        guard let node = try node(id) else { throw SyncError(.unknownCommit, commit: id) }
        return node
    }

    /// Inserts the commits that have waited for one, and those that have waited for them.
    ///
    /// - Returns: Their number.
    private func insertWaiting(for id: CommitID, from remote: Int64) throws -> Int {
        guard hasPending else { return 0 }
        var open = try waiting(for: id)
        var count = 0
        while let (commit, id, canonical) = open.popLast() {
            do {
                try requirePlace(commit)
                try store(commit, id, canonical, from: nil)
                count += 1
            } catch let refusal as Refusal {
                // The next fetch asks for it again.
                try quarantine(id, refusal.reason, remote)
                try stopWaiting(id)
                continue
            }
            open += try waiting(for: id)
        }
        return count
    }

    /// Inserts the commits that wait for one that is here: a merge that this store has made itself, as their author has.
    ///
    /// - Returns: Their number.
    private func insertReady(from remote: Int64) throws -> Int {
        guard hasPending else { return 0 }
        let present = try Data.fetchAll(
            db,
            sql: """
                SELECT DISTINCT missing FROM main.\(SyncTables.pending)
                WHERE missing IN (SELECT id FROM main.\(SyncTables.commit))
                """)
        return try present.compactMap { CommitID(bytes: $0) }.reduce(0) { count, id in
            try count + insertWaiting(for: id, from: remote)
        }
    }

    /// The commits that wait for a parent.
    func pending() throws -> Set<CommitID> {
        guard hasPending else { return [] }
        return try Set(
            Data.fetchAll(db, sql: "SELECT id FROM main.\(SyncTables.pending)").compactMap { CommitID(bytes: $0) })
    }

    /// The commits that others wait for, and that do not wait themselves.
    func missing() throws -> [CommitID] {
        guard hasPending else { return [] }
        return try Data.fetchAll(
            db,
            sql: """
                SELECT DISTINCT missing FROM main.\(SyncTables.pending) AS p
                WHERE NOT EXISTS (SELECT 1 FROM main.\(SyncTables.pending) WHERE id = p.missing)
                LIMIT \(Limits.commitsAtOnce)
                """
        ).compactMap { CommitID(bytes: $0) }
    }

    /// Sets commits aside that wait for one that is not at the remote, which was read to its end: a checkpoint may have
    /// replaced it, and they would wait for ever. The next fetch asks for them again, and for what it builds on then.
    ///
    /// - Parameter awaited: The commits that have waited since before the logs were read.
    func quarantineUnreachable(among awaited: Set<CommitID>, at remote: Int64) throws {
        guard floor != nil, hasPending else { return }
        let found = try Data.fetchAll(
            db,
            sql: """
                SELECT id FROM main.\(SyncTables.pending) AS p
                WHERE NOT EXISTS (SELECT 1 FROM main.\(SyncTables.pending) WHERE id = p.missing)
                    AND NOT EXISTS (SELECT 1 FROM main.\(SyncTables.quarantine) WHERE id = p.missing)
                """)
        for id in found.compactMap({ CommitID(bytes: $0) }) where awaited.contains(id) {
            try quarantine(id, Self.baseIsReplaced, remote)
            try stopWaiting(id)
        }
    }

    /// Goes on after a checkpoint has come in the place of commits: inserts what has waited for its commit, and removes what
    /// waits for what is gone.
    ///
    /// - Parameters:
    ///   - id: The commit for which the checkpoint stands.
    ///   - removed: Commits that the checkpoint has replaced, or that were removed.
    func continuePending(
        after id: CommitID, generation: UInt64, without removed: [CommitID], from remote: Int64
    ) throws {
        var gone = removed
        let rows = try Row.fetchCursor(db, sql: "SELECT id, body FROM main.\(SyncTables.pending)")
        while let row = try rows.next() {
            let (pending, commit) = try Self.pending(row)
            if commit.generation <= generation { gone.append(pending) }
        }
        gone.removeAll { $0 == id }
        for id in gone + [id] { try stopWaiting(id) }
        _ = try removePending(waitingFor: gone)
        _ = try insertWaiting(for: id, from: remote)
        try saveState()
    }

    private static func pending(_ row: Row) throws -> (CommitID, Commit) {
        guard let id = CommitID(bytes: try row.stored(0, as: Data.self)),
            let commit = try? Commit(encoded: Array(try row.stored(1, as: Data.self))[...])
        else {
            throw CommitStore.damaged("A commit that waits for its parents has no valid content.")
        }
        return (id, commit)
    }

    private func quarantine(_ id: CommitID, _ reason: String, _ remote: Int64) throws {
        hasQuarantined = true
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.\(SyncTables.quarantine) (remote, id, reason) VALUES (?, ?, ?)",
            arguments: [remote, Data(id.bytes), reason])
    }

    private func stopWaiting(_ id: CommitID) throws {
        guard hasPending else { return }
        try db.execute(sql: "DELETE FROM main.\(SyncTables.pending) WHERE id = ?", arguments: [Data(id.bytes)])
    }

    /// The commits that have waited for one, and have all parents now; others wait for their next parent.
    private func waiting(for id: CommitID) throws -> [(Commit, CommitID, [UInt8])] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT id, body FROM main.\(SyncTables.pending) WHERE missing = ? ORDER BY id",
            arguments: [Data(id.bytes)])
        return try rows.compactMap { row in
            let (id, commit) = try Self.pending(row)
            let bytes = Array(try row.stored(1, as: Data.self))
            if let missing = try commit.parents.first(where: { try !isStored($0) }) {
                try wait(id, for: missing, bytes)
                return nil
            }
            return (commit, id, bytes)
        }
    }

    /// Removes the commits that wait for some, and those that wait for them.
    ///
    /// - Returns: Their number.
    func removePending(waitingFor ids: [CommitID]) throws -> Int {
        var (open, count) = (ids, 0)
        while let id = open.popLast() {
            let waiting = try Data.fetchAll(
                db, sql: "SELECT id FROM main.\(SyncTables.pending) WHERE missing = ?", arguments: [Data(id.bytes)])
            for child in waiting.compactMap({ CommitID(bytes: $0) }) {
                try stopWaiting(child)
                count += 1
                open.append(child)
            }
        }
        return count
    }

    /// Gives up objects of a remote that were refused, and the commits that wait for them and for no object that another
    /// remote is asked for.
    ///
    /// - Returns: The number of both.
    func giveUp(_ ids: [ObjectID], at remote: Int64) throws -> Int {
        for id in ids {
            try db.execute(
                sql: "DELETE FROM main.\(SyncTables.quarantine) WHERE remote = ? AND id = ?",
                arguments: [remote, Data(id.bytes)])
        }
        return try ids.count + removePending(waitingFor: ids.filter { try !isQuarantined($0) })
    }

    /// Whether any remote is asked again for an object.
    private func isQuarantined(_ id: ObjectID) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(SyncTables.quarantine) WHERE id = ?)",
            arguments: [Data(id.bytes)]) ?? false
    }

    /// Gives up what a remote has refused, where the remote is forgotten. What commits wait for, another remote is asked for.
    func giveUpAll(at remote: Int64) throws {
        let other = try Int64.fetchOne(
            db, sql: "SELECT n FROM main.\(SyncTables.remote) WHERE n <> ?", arguments: [remote])
        if let other {
            try db.execute(
                sql: """
                    UPDATE OR IGNORE main.\(SyncTables.quarantine) SET remote = ?
                    WHERE remote = ? AND id IN (SELECT missing FROM main.\(SyncTables.pending))
                    """,
                arguments: [other, remote])
        }
        let rest = try Data.fetchAll(
            db, sql: "SELECT id FROM main.\(SyncTables.quarantine) WHERE remote = ?", arguments: [remote])
        _ = try giveUp(rest.compactMap { ObjectID(bytes: $0) }, at: remote)
    }

    /// Throws unless generation and time are possible after those of the parents.
    private func requirePlace(_ commit: Commit) throws {
        let parents = try commit.parents.map(requireNode)
        guard commit.generation == (parents.map(\.generation).max() ?? 0) + 1 else {
            throw Refusal(reason: "its generation does not follow those of its parents")
        }
        guard commit.time.isPossible(for: commit.kind, after: parents.map(\.time)) else {
            throw Refusal(reason: "its time does not follow those of its parents")
        }
        guard commit.kind != .checkpoint else { throw Refusal(reason: "a checkpoint is in no log") }
    }

    /// Gives this store another author, where it finds commits of its own that it does not have: it was restored from a
    /// backup, or copied, and would number others alike. For the same reason its logs at the remotes begin anew.
    private func noteAuthor(of commit: Commit) throws {
        guard commit.author == state.author else { return }
        state = try state.withNewAuthor(db)
        isStateChanged = true
        try RemoteState.beginNewLogs(db)
    }

    private func enqueue(_ n: Int64, except remote: Int64?) throws {
        guard hasSeveralRemotes else { return }
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.outbox) (remote, sequence, n)
                SELECT n, sequence + 1, ?1 FROM main.\(SyncTables.remote) WHERE n IS NOT ?2
                """,
            arguments: [n, remote])
        if db.changesCount == 0 { return }
        try db.execute(
            sql: "UPDATE main.\(SyncTables.remote) SET sequence = sequence + 1 WHERE n IS NOT ?", arguments: [remote])
    }
}
