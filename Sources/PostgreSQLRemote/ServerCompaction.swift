#if PostgreSQL
    import ChangesetSync

    /// The acknowledgements of the replicas in the tables of one repository, and the removal of what a checkpoint has
    /// replaced, by one connection.
    ///
    /// Each statement is a transaction, and may be repeated when its outcome is unknown.
    struct ServerCompaction {
        let reader: ObjectReader

        private var connection: Connection { reader.connection }
        private var repository: RepositoryID { reader.repository }

        // MARK: Acknowledgements

        /// Replaces what an author has there. Only that replica writes it.
        func put(_ acknowledgement: RemoteAcknowledgement) async throws {
            if try await !reader.checkRepository() {
                try await connection.run(RemoteTables.register(repository), within: reader.limit)
            }
            let present = try await connection.rows(
                RemoteTables.acknowledgement(of: acknowledgement.author, repository), within: reader.limit)
            let former = present.rowCount > 0 ? present.bytes(0, 0).map { Array($0) } : nil
            // A call before has written it, and nobody was told.
            if former == acknowledgement.bytes { return }
            let written = try await connection.rows(
                RemoteTables.acknowledge(acknowledgement, replacing: former, repository), within: reader.limit)
            guard written.rowCount > 0 else {
                throw PostgreSQLError(.contention, reader.remote, "an acknowledgement was replaced meanwhile")
            }
        }

        func all() async throws -> [RemoteAcknowledgement] {
            var (found, last, byteCount) = ([RemoteAcknowledgement](), [UInt8](), 0)
            while true {
                let answer = try await connection.rows(
                    RemoteTables.acknowledgements(after: last, repository), within: reader.limit)
                if answer.rowCount == 0 {
                    try await reader.refuseOthers()
                    return []
                }
                let former = last
                for row in 0..<answer.rowCount {
                    try reader.checkLayout(answer.integer(row, 0))
                    guard let author = answer.bytes(row, 1) else { return found }
                    guard last.lexicographicallyPrecedes(author) else {
                        throw answer.unexpected("authors are not in order")
                    }
                    guard let bytes = answer.bytes(row, 2) else { break }
                    guard bytes.count <= Limits.acknowledgementBytes + 1 else {
                        throw answer.unexpected("an acknowledgement of \(bytes.count) bytes")
                    }
                    last = Array(author)
                    byteCount += bytes.count
                    // Names of another length are none of ours.
                    if let author = AuthorPseudonym(bytes: author) {
                        found.append(RemoteAcknowledgement(author: author, bytes: Array(bytes)))
                    }
                }
                guard last != former else { throw answer.unexpected("acknowledgements without bytes") }
                guard found.count <= Limits.remoteAuthors, byteCount <= Limits.acknowledgementsBytes else {
                    throw answer.unexpected("too many acknowledgements")
                }
            }
        }

        // MARK: Removal

        func delete(_ ids: [ObjectID]) async throws {
            guard !ids.isEmpty else { return }
            try await connection.run(RemoteTables.delete(ids, repository), within: reader.limit)
        }

        /// Removes some entries of a log, and their objects first: as long as an entry is there, a call that is repeated
        /// finds its object. Upwards, so that the entries that are left lead to the last one, which stays.
        ///
        /// - Returns: The sequence from which on to go on; nil where nothing is left.
        func deleteEntries(
            of author: AuthorPseudonym, _ range: ClosedRange<Int64>, except needed: Set<ObjectID>
        ) async throws -> Int64? {
            let answer = try await connection.rows(
                RemoteTables.entries(of: author, range, repository), within: reader.limit)
            var (last, ids) = (range.lowerBound, [ObjectID]())
            for row in 0..<answer.rowCount {
                let sequence = try answer.integer(row, 0)
                guard range.contains(sequence), sequence > last || row == 0 else {
                    throw answer.unexpected("entries are not in order")
                }
                last = sequence
                if let id = answer.bytes(row, 1).flatMap({ ObjectID(bytes: $0) }), !needed.contains(id) {
                    ids.append(id)
                }
            }
            guard answer.rowCount > 0 else { return nil }
            try await delete(ids.sorted())
            let end = last < range.upperBound ? last + 1 : range.upperBound
            try await connection.run(
                RemoteTables.deleteEntries(of: author, range.lowerBound..<end, repository), within: reader.limit)
            return last < range.upperBound ? last + 1 : nil
        }
    }

    extension PostgreSQLRemote: RemoteCompaction {
        /// - Throws: ``PostgreSQLError`` `missingRights` where the user may not write acknowledgements, or may not create
        ///   their table on a server that an earlier version has set up.
        public func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws {
            let first = await Result { try await self.retrying { try await self.compaction($0).put(acknowledgement) } }
            guard Self.isNotSetUp(first) else { return try first.get() }
            // Throws where no table is there.
            _ = try await retrying { try await self.reader($0).checkRepository() }
            try await setup()
            try await retrying { try await self.compaction($0).put(acknowledgement) }
        }

        public func acknowledgements() async throws -> [RemoteAcknowledgement] {
            let found = await Result { try await self.retrying { try await self.compaction($0).all() } }
            guard Self.isNotSetUp(found) else { return try found.get() }
            // On a server that an earlier version has set up nobody has acknowledged anything.
            _ = try await retrying { try await self.reader($0).checkRepository() }
            return []
        }

        public func delete(
            _ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>
        ) async throws {
            guard try await retrying({ try await self.reader($0).checkRepository() }) else { return }
            let loose = Set(objects).subtracting(needed).sorted()
            for start in stride(from: 0, to: loose.count, by: PostgreSQLLimits.objectsAtOnce) {
                try Task.checkCancellation()
                let part = Array(loose[start..<min(start + PostgreSQLLimits.objectsAtOnce, loose.count)])
                try await retrying { try await self.compaction($0).delete(part) }
            }
            let last = cursor.sequences.filter { $0.value <= Int64.max }.sorted { $0.key < $1.key }
                .map { LogPosition(author: $0.key, sequence: $0.value) }
            let found = try await retrying { try await self.reader($0).identifiers(at: last) }
            // Where the last entry is missing, readers could not see that the log goes on.
            for (position, id) in zip(last, found) where id != nil {
                var next: Int64? = 1
                while let first = next {
                    try Task.checkCancellation()
                    next = try await retrying {
                        try await self.compaction($0).deleteEntries(
                            of: position.author, first...Int64(position.sequence), except: needed)
                    }
                }
            }
        }

        private static func isNotSetUp<T>(_ result: Result<T, any Error>) -> Bool {
            if case .failure(let error as PostgreSQLError) = result { error.code == .notSetUp } else { false }
        }

        private func compaction(_ connection: Connection) -> ServerCompaction {
            ServerCompaction(reader: reader(connection))
        }
    }
#endif
