#if PostgreSQL
    import ChangesetSync

    /// Writes objects and log entries of one repository, by one connection.
    ///
    /// Each statement is a transaction, and may be repeated when its outcome is unknown: what is there by then is compared.
    /// Entries are inserted when their objects are committed, so no reader sees one without the other.
    struct ObjectWriter {
        let reader: ObjectReader

        private var connection: Connection { reader.connection }
        private var repository: RepositoryID { reader.repository }

        // MARK: Before anything is written

        /// Registers the repository, and refuses what would leave a gap in a log: readers would wait before it for ever.
        func prepare(for objects: ArraySlice<RemoteObject>) async throws {
            let isKnown = try await reader.checkRepository()
            var seen: Set<AuthorPseudonym> = []
            let needed = objects.compactMap(\.position).filter { seen.insert($0.author).inserted && $0.sequence > 1 }
                .map { LogPosition(author: $0.author, sequence: $0.sequence - 1) }
            let found = isKnown ? try await reader.identifiers(at: needed) : []
            for (index, position) in needed.enumerated() where index >= found.count || found[index] == nil {
                throw RemoteError.remoteRewound(remote: reader.remote, missing: position)
            }
            if !isKnown { try await connection.run(RemoteTables.register(repository), within: reader.limit) }
        }

        /// Parts that one statement can insert.
        static func batches(of objects: [RemoteObject]) -> [ArraySlice<RemoteObject>] {
            var batches: [ArraySlice<RemoteObject>] = []
            var (start, byteCount) = (0, 0)
            for (index, object) in objects.enumerated() {
                let isFull =
                    index - start == PostgreSQLLimits.objectsAtOnce
                    || byteCount + object.bytes.count > PostgreSQLLimits.insertBytes
                if isFull, index > start {
                    batches.append(objects[start..<index])
                    (start, byteCount) = (index, 0)
                }
                byteCount += object.bytes.count
            }
            if start < objects.count { batches.append(objects[start...]) }
            return batches
        }

        // MARK: One batch

        func put(_ batch: ArraySlice<RemoteObject>) async throws -> [PutResult] {
            var results = try await store(batch)
            var entries: [(entry: RemoteEntry, index: Int)] = []
            for (index, (object, result)) in zip(batch, results).enumerated() {
                guard let position = object.position, result == .stored || result == .alreadyPresent else { continue }
                entries.append((RemoteEntry(id: object.id, position: position), index))
            }
            if let collision = try await enter(entries.map(\.entry)) {
                results.removeSubrange(entries[collision].index...)
                results.append(.collision(.position))
            }
            return results
        }

        /// Stores objects, and compares those that were there.
        ///
        /// - Returns: The results up to the first collision.
        private func store(_ batch: ArraySlice<RemoteObject>) async throws -> [PutResult] {
            var first: [ObjectID: RemoteObject] = [:]
            for object in batch where first[object.id] == nil { first[object.id] = object }
            let stored = try await insert(first.values.sorted { $0.id < $1.id })
            var present: [ObjectID: [UInt8]] = [:]
            try await reader.objects(Set(first.keys).subtracting(stored)) { present[$0] = $1 }
            var results: [PutResult] = []
            var seen: Set<ObjectID> = []
            for object in batch {
                let isNew = seen.insert(object.id).inserted && stored.contains(object.id)
                let expected = stored.contains(object.id) ? first[object.id]?.bytes : present[object.id]
                guard let expected else {
                    // Removed between the two statements, or hidden: the same again.
                    throw PostgreSQLError(.contention, reader.remote, "an object is gone that was there")
                }
                results.append(
                    expected != object.bytes ? .collision(.object) : isNew ? .stored : .alreadyPresent)
                if case .collision = results.last { break }
            }
            return results
        }

        /// - Returns: The identifiers that were not there.
        private func insert(_ objects: [RemoteObject]) async throws -> Set<ObjectID> {
            let answer = try await connection.rows(RemoteTables.insert(objects, repository), within: reader.limit)
            let wanted = Set(objects.map(\.id))
            var stored: Set<ObjectID> = []
            for row in 0..<answer.rowCount {
                guard let id = answer.bytes(row, 0).flatMap({ ObjectID(bytes: $0) }), wanted.contains(id),
                    stored.insert(id).inserted
                else { throw answer.unexpected("row \(row) is an object that was not inserted") }
            }
            return stored
        }

        /// Enters objects that are committed in the logs.
        ///
        /// - Returns: The index of the first entry whose position another object has; it and those after it are in no log.
        private func enter(_ entries: [RemoteEntry]) async throws -> Int? {
            var missing = entries
            var collision: Int?
            while !missing.isEmpty {
                do {
                    try await connection.run(RemoteTables.insert(missing, repository), within: reader.limit)
                    break
                } catch let error as PostgreSQLError where error.isDuplicate {
                    let candidates = entries[..<(collision ?? entries.count)]
                    let found = try await reader.identifiers(at: candidates.map(\.position))
                    collision =
                        found.indices.first { found[$0] != nil && found[$0] != candidates[$0].id.bytes } ?? collision
                    let left = zip(candidates, found).prefix(collision ?? entries.count).filter { $1 == nil }.map(\.0)
                    // Nothing was there after all: it was removed in the meantime, or the server does not tell the truth.
                    guard left.count < missing.count else { throw PostgreSQLError(.contention, reader.remote) }
                    missing = left
                }
            }
            return collision
        }
    }

    extension PostgreSQLError {
        /// Whether a unique key was there before.
        var isDuplicate: Bool { sqlState == "23505" }
    }
#endif
