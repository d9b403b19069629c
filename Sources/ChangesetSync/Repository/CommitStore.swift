import CipherDatabase
import Foundation

/// A commit as the graph sees it, without its content.
struct CommitNode: Hashable, Sendable {
    /// The number of the commit in this store.
    let n: Int64
    let id: CommitID
    /// The numbers of the parents, in the order of the commit's deltas.
    let parents: [Int64]
    let generation: UInt64
    let kind: Commit.Kind
    /// The number of the author.
    let author: Int64
    let time: HybridTime

    /// The order in which walks visit commits: children before parents.
    static func precedes(_ left: CommitNode, _ right: CommitNode) -> Bool {
        left.generation == right.generation ? left.id < right.id : left.generation < right.generation
    }
}

/// The commits of a store: reading and inserting them. Inside a transaction.
struct CommitStore {
    let db: Database
    private static let nodes = """
        SELECT n, id, parent1, parent2, generation, kind, author, time FROM main.\(SyncTables.commit)
        """
    private static let nodeByNumber = nodes + " WHERE n = ?"
    private static let nodeByID = nodes + " WHERE id = ?"
    private static let insertion = """
        INSERT INTO main.\(SyncTables.commit)
        (id, parent1, parent2, generation, kind, author, sequence, time, meta_bytes, delta_bytes, merge_bytes, state,
            body)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """

    // MARK: Reading

    func node(_ n: Int64) throws -> CommitNode {
        let statement = try db.cachedStatement(sql: Self.nodeByNumber)
        guard let row = try Row.fetchOne(statement, arguments: [n]) else { throw Self.damaged("A commit is missing.") }
        return try Self.node(row)
    }

    func node(_ id: CommitID) throws -> CommitNode? {
        let statement = try db.cachedStatement(sql: Self.nodeByID)
        return try Row.fetchOne(statement, arguments: [Data(id.bytes)]).map(Self.node)
    }

    func requireNode(_ id: CommitID) throws -> CommitNode {
        guard let node = try node(id) else { throw SyncError(.unknownCommit, commit: id) }
        return node
    }

    private static func node(_ row: Row) throws -> CommitNode {
        guard let id = CommitID(bytes: try row.stored(1, as: Data.self)),
            let kind = Commit.Kind(rawValue: UInt8(clamping: try row.stored(5, as: Int.self)))
        else { throw damaged("A commit has no identifier.") }
        let n: Int64 = try row.stored(0)
        let parents = try [2, 3].compactMap { try row.storedOrNil($0, as: Int64.self) }
        let (generation, time): (Int64, Int64) = (try row.stored(4), try row.stored(7))
        // A parent has a lower number, so no walk is endless.
        guard generation > 0, time >= 0, parents.allSatisfy({ $0 < n }) else {
            throw damaged("A commit has no place in the graph.")
        }
        return CommitNode(
            n: n, id: id, parents: parents, generation: UInt64(generation), kind: kind, author: try row.stored(6),
            time: HybridTime(rawValue: UInt64(time)))
    }

    /// The content of a commit. Its identifier was verified before it was stored.
    func commit(_ n: Int64) throws -> Commit {
        let bytes = try canonical(n)
        return try reading(n) { try Commit(encoded: bytes[...]) }
    }

    /// Runs a block with the content of a commit. An error about the content names the commit.
    func reading<T>(_ n: Int64, _ body: () throws -> T) throws -> T {
        let detail: String
        do {
            return try body()
        } catch let error as SyncError where error.code == .damagedCommit && error.commit == nil {
            detail = error.detail ?? ""
        } catch let error as DeltaError {
            detail = "\(error)"
        } catch let error as CommitError {
            detail = "\(error)"
        }
        throw SyncError(.damagedCommit, commit: try node(n).id, detail)
    }

    func canonical(_ n: Int64) throws -> [UInt8] {
        let statement = try db.cachedStatement(sql: "SELECT body FROM main.\(SyncTables.commit) WHERE n = ?")
        guard let body = try Data.fetchOne(statement, arguments: [n]) else {
            throw Self.damaged("A commit is missing.")
        }
        return Array(body)
    }

    /// The delta of a commit from one of its parents.
    ///
    /// That of a checkpoint are all rows of its state, from its parts.
    func delta(_ n: Int64, fromParent index: Int = 0) throws -> Delta {
        let commit = try commit(n)
        return try reading(n) { try delta(of: commit, n, fromParent: index) }
    }

    /// The same of a commit that was read.
    func delta(of commit: Commit, _ n: Int64, fromParent index: Int) throws -> Delta {
        if commit.kind == .checkpoint { return try CheckpointStore(db: db).rows(ofCommit: node(n).id) }
        return try commit.delta(fromParent: index)
    }

    func author(_ n: Int64) throws -> AuthorID {
        let statement = try db.cachedStatement(sql: "SELECT id FROM main.\(SyncTables.author) WHERE n = ?")
        guard let bytes = try Data.fetchOne(statement, arguments: [n]), let author = AuthorID(bytes: bytes) else {
            throw Self.damaged("An author is missing.")
        }
        return author
    }

    /// The number that the author of a commit has given it; 0 for a merge.
    func sequence(of n: Int64) throws -> UInt64 {
        let statement = try db.cachedStatement(sql: "SELECT sequence FROM main.\(SyncTables.commit) WHERE n = ?")
        guard let sequence = try Int64.fetchOne(statement, arguments: [n]) else {
            throw Self.damaged("A commit is missing.")
        }
        return UInt64(clamping: sequence)
    }

    /// The commits that are no parent, those that come first in the order of walks last.
    func leaves() throws -> [CommitNode] {
        try graphLeaves().numbers.map(node).sorted(by: CommitNode.precedes)
    }

    func graphLeaves() throws -> GraphLeaves { try RepositoryState(db).leaves }

    /// The times of the last commits of all authors that show a clock: one that is a step later than its parents shows
    /// none.
    func clocks() throws -> [HybridTime] {
        let last = try Int64.fetchAll(
            db,
            sql: """
                SELECT max(n) FROM main.\(SyncTables.commit)
                WHERE kind = \(Commit.Kind.ordinary.rawValue) GROUP BY author
                """)
        return try last.compactMap { n in
            let node = try node(n)
            let parent = try node.parents.map { try self.node($0).time }.max()
            return parent.map { $0.rawValue + 1 } == node.time.rawValue ? nil : node.time
        }
    }

    /// Removes commits.
    ///
    /// - Parameter removed: Those that are no parent.
    func remove(leaves removed: Set<Int64> = [], _ removal: () throws -> Void) throws {
        let leaves = try graphLeaves().numbers.filter { !removed.contains($0) }
        try remove(leaving: leaves, removal)
    }

    /// Removes commits. The state is saved anew: the last commits may be among them, and then their numbers are given again.
    ///
    /// - Parameter leaves: The commits that are no parent then.
    func remove(leaving leaves: [Int64], _ removal: () throws -> Void) throws {
        let state = try RepositoryState(db)
        try removal()
        try state.save(db, leaves: GraphLeaves(leaves))
    }

    // MARK: Inserting

    /// The number of an author, who is added where it is new.
    func number(of author: AuthorID) throws -> Int64 {
        let bytes = Data(author.bytes)
        let find = try db.cachedStatement(sql: "SELECT n FROM main.\(SyncTables.author) WHERE id = ?")
        if let n = try Int64.fetchOne(find, arguments: [bytes]) { return n }
        try db.execute(sql: "INSERT INTO main.\(SyncTables.author) (id) VALUES (?)", arguments: [bytes])
        return db.lastInsertedRowID
    }

    /// Inserts a commit whose parents are there, and whose identifier was computed from these canonical bytes.
    ///
    /// - Returns: Its number; nil where it was there.
    func insert(_ commit: Commit, id: CommitID, canonical: [UInt8]) throws -> CommitNode? {
        if try node(id) != nil { return nil }
        var state = try RepositoryState(db)
        let node = try insertNew(
            commit, id: id, canonical: canonical, parents: commit.parents.map { try requireNode($0).n },
            author: number(of: commit.author), nil)
        state.leaves.replace(node.parents, by: node.n)
        try state.save(db, leaves: state.leaves)
        return node
    }

    /// Inserts a commit that is not there.
    ///
    /// - Parameters:
    ///   - parents: The numbers of its parents.
    ///   - author: The number of its author.
    ///   - growth: The state after it; nil where that is saved.
    func insertNew(
        _ commit: Commit, id: CommitID, canonical: [UInt8], parents: [Int64], author: Int64,
        _ growth: RepositoryState.Growth?
    ) throws -> CommitNode {
        try db.cachedStatement(sql: Self.insertion).execute(exact: [
            .blob(id.bytes[...]), parents.first.map { .integer($0) } ?? .null,
            parents.count > 1 ? .integer(parents[1]) : .null, .integer(Int64(clamping: commit.generation)),
            .integer(Int64(commit.kind.rawValue)), .integer(author), .integer(Int64(clamping: commit.authorSequence)),
            .integer(Int64(clamping: commit.time.rawValue)), .integer(Int64(commit.meta.utf8.count)),
            .integer(Int64(commit.deltas[0].count)),
            .integer(Int64(commit.deltas.count > 1 ? commit.deltas[1].count : 0)),
            growth.map { .blob($0.encoded[...]) } ?? .null, .blob(canonical[...]),
        ])
        return CommitNode(
            n: db.lastInsertedRowID, id: id, parents: parents, generation: commit.generation, kind: commit.kind,
            author: author, time: commit.time)
    }

    static func damaged(_ what: String) -> SyncError { SyncError(.damagedRepository, what) }
}

/// The numbers of the commits that are no parent, as a store keeps them: each as 64 bits.
struct GraphLeaves: Hashable, Sendable {
    private(set) var numbers: [Int64]

    init(_ numbers: [Int64]) { self.numbers = numbers }

    /// - Returns: nil where these are no numbers.
    init?(encoded bytes: [UInt8]) {
        guard bytes.count % 8 == 0 else { return nil }
        numbers = bytes.withUnsafeBytes { bytes in
            stride(from: 0, to: bytes.count, by: 8).map {
                Int64(bigEndian: bytes.loadUnaligned(fromByteOffset: $0, as: Int64.self))
            }
        }
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for number in numbers { bytes.append(bigEndian: number) }
        return bytes
    }

    /// Notes that commits are parents.
    mutating func remove(_ parents: [Int64]) { numbers.removeAll(where: parents.contains) }

    /// Notes that a commit is no parent yet, and that its parents are.
    mutating func replace(_ parents: [Int64], by n: Int64) {
        remove(parents)
        numbers.append(n)
    }
}
