import CipherDatabase

/// The snapshots that were fetched and wait, with their parts. Inside a transaction.
struct ReceivedSnapshots {
    let db: Database

    private enum Form: Int64 {
        /// Parts are missing.
        case partial = 0
        case whole = 1
        /// Its content is none that can be joined. The row is kept for the status.
        case refused = 2
        /// The parts of a snapshot that this store makes.
        case own = 3
    }

    // MARK: Receiving

    /// Begins a snapshot, or continues one that was begun and never ended; another such one goes.
    ///
    /// - Parameter identity: The same for the same parts alone. It stands in the place of the vector until the end.
    /// - Returns: The number of the snapshot, and how many parts it has.
    func begin(_ identity: [UInt8]) throws -> (n: Int64, partCount: Int) {
        let found = try db.cachedStatement(
            sql: "SELECT n FROM \(EngineTables.received) WHERE whole = ? AND vector = ?"
        ).first([.integer(Form.partial.rawValue), ExactValue(identity)]) { $0.integer(0) }
        guard let found else { return (try begin(.partial, identity), 0) }
        let count = try db.cachedStatement(sql: "SELECT count(*) FROM \(EngineTables.part) WHERE snapshot = ?")
            .first([.integer(found)]) { $0.integer(0) }
        return (found, Int(count ?? 0))
    }

    private func begin(_ form: Form, _ vector: [UInt8]) throws -> Int64 {
        try removeAll(form)
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.received) (vector, whole) VALUES (?, ?)")
            .execute(exact: [ExactValue(vector), .integer(form.rawValue)])
        return db.lastInsertedRowID
    }

    /// Removes a snapshot that was begun and never ended.
    func removePartial() throws { try removeAll(.partial) }

    func has(_ snapshot: Int64) throws -> Bool {
        try db.cachedStatement(sql: "SELECT 1 FROM \(EngineTables.received) WHERE n = ?")
            .first([.integer(snapshot)]) { _ in true } ?? false
    }

    func add(_ content: [UInt8], _ number: Int, to snapshot: Int64) throws {
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.part) (snapshot, number, content) VALUES (?, ?, ?)")
            .execute(exact: [.integer(snapshot), .integer(Int64(number)), ExactValue(content)])
    }

    /// The snapshot has all of its parts.
    func end(_ snapshot: Int64, _ vector: VersionVector) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.received) SET vector = ? WHERE n = ?")
            .execute(exact: [ExactValue(vector.bytes), .integer(snapshot)])
        try set(.whole, snapshot)
    }

    private func set(_ form: Form, _ snapshot: Int64) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.received) SET whole = ? WHERE n = ?")
            .execute(exact: [.integer(form.rawValue), .integer(snapshot)])
    }

    private func removeAll(_ form: Form) throws {
        var found: [Int64] = []
        try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.received) WHERE whole = ?")
            .forEach([.integer(form.rawValue)]) { found.append($0.integer(0)) }
        for snapshot in found { try remove(snapshot) }
    }

    // MARK: Joining

    /// The vectors of the snapshots that wait.
    func vectors() throws -> [VersionVector] { try all(.whole).map(\.vector) }

    /// The snapshot that is joined next.
    func next() throws -> (n: Int64, vector: VersionVector)? { try all(.whole).first }

    /// The vectors of the snapshots that could not be joined.
    func refusedVectors() throws -> [VersionVector] { try all(.refused).map(\.vector) }

    private func all(_ form: Form) throws -> [(n: Int64, vector: VersionVector)] {
        var found: [(n: Int64, vector: VersionVector)] = []
        try db.cachedStatement(sql: "SELECT n, vector FROM \(EngineTables.received) WHERE whole = ? ORDER BY n")
            .forEach([.integer(form.rawValue)]) { row in
                found.append((row.integer(0), try VersionVector(bytes: row.bytes(1))))
            }
        return found
    }

    func part(_ number: Int, of snapshot: Int64) throws -> [UInt8]? {
        try db.cachedStatement(sql: "SELECT content FROM \(EngineTables.part) WHERE snapshot = ? AND number = ?")
            .first([.integer(snapshot), .integer(Int64(number))]) { $0.bytes(0) }
    }

    func remove(_ snapshot: Int64) throws {
        try removeParts(snapshot)
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.received) WHERE n = ?")
            .execute(exact: [.integer(snapshot)])
    }

    private func removeParts(_ snapshot: Int64) throws {
        if case .snapshot(snapshot, _, _)? = try JoinPlace.read(db) { try JoinPlace.remove(db) }
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.part) WHERE snapshot = ?")
            .execute(exact: [.integer(snapshot)])
    }

    func removePart(_ number: Int, of snapshot: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.part) WHERE snapshot = ? AND number = ?")
            .execute(exact: [.integer(snapshot), .integer(Int64(number))])
    }

    func refuse(_ snapshot: Int64) throws {
        try removeParts(snapshot)
        try set(.refused, snapshot)
    }

    // MARK: Making

    /// Begins the parts of a snapshot that this store makes.
    func beginOwn() throws -> Int64 { try begin(.own, []) }

    /// Removes the parts that this store has made.
    func removeOwn() throws { try removeAll(.own) }
}

/// The parts of a snapshot that was received.
struct ReceivedParts: SnapshotParts {
    let snapshot: Int64

    func part(_ number: Int, _ db: Database) throws -> [UInt8]? {
        try ReceivedSnapshots(db: db).part(number, of: snapshot)
    }

    func remove(_ db: Database) throws { try ReceivedSnapshots(db: db).remove(snapshot) }
}

extension VersionVector {
    /// The vector as tables of the engine have it.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        for entry in entries { bytes.append(entry) }
        return bytes
    }

    init(bytes: [UInt8]) throws {
        var (entries, reader) = ([AuthorTips](), ByteReader(bytes))
        while !reader.isAtEnd { entries.append(try reader.authorTips()) }
        self.init(entries)
    }
}
