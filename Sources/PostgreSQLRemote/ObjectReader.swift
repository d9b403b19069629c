#if PostgreSQL
    import ChangesetSync

    /// Reads logs and objects of one repository, by one connection.
    struct ObjectReader {
        let connection: Connection
        let repository: RepositoryID
        let remote: String
        let isShared: Bool
        let limit: Duration

        // MARK: Repository

        /// Verifies that the repository is known, in the layout of this version.
        ///
        /// - Returns: Whether it is known.
        func checkRepository() async throws -> Bool {
            let answer = try await connection.rows(RemoteTables.layout(of: repository), within: limit)
            if answer.rowCount > 0 {
                try checkLayout(answer.integer(0, 0))
                return true
            }
            // Another replica may have registered it a moment ago: then its layout is looked at after all.
            return try await refuseOthers() ? checkRepository() : false
        }

        func checkLayout(_ layout: Int64) throws {
            guard layout == RemoteTables.layout else {
                throw RemoteError.unknownVersion(remote: remote, version: "layout \(layout)")
            }
        }

        /// Takes a database with other repositories only for a wrong address.
        ///
        /// - Returns: Whether the repository is there after all.
        @discardableResult
        func refuseOthers() async throws -> Bool {
            guard !isShared else { return false }
            let answer = try await connection.rows(RemoteTables.repositories(repository), within: limit)
            let found = (0..<answer.rowCount).compactMap { row in
                answer.bytes(row, 0).flatMap { RepositoryID(bytes: $0) }
            }
            if found.contains(repository) { return true }
            if !found.isEmpty { throw RemoteError.otherRepository(remote: remote, found: found) }
            return false
        }

        /// The identifier at each position; nil where there is none, an empty array where it is none of ours.
        func identifiers(at positions: [LogPosition]) async throws -> [[UInt8]?] {
            var found = [[UInt8]?](repeating: nil, count: positions.count)
            guard !positions.isEmpty else { return found }
            let answer = try await connection.rows(RemoteTables.identifiers(at: positions, repository), within: limit)
            for row in 0..<answer.rowCount {
                found[try Self.index(answer, row, below: positions.count)] = answer.bytes(row, 1).map { Array($0) }
            }
            return found
        }

        /// The index that an answer has as a number from 1.
        private static func index(_ answer: Answer, _ row: Int, below count: Int) throws -> Int {
            let number = try answer.integer(row, 0)
            guard number >= 1, number <= count else { throw answer.unexpected("row \(row) is of nothing asked for") }
            return Int(number) - 1
        }

        // MARK: Logs

        func list(after cursor: RemoteCursor, limit most: Int) async throws -> RemotePage {
            let listed = try await authors()
            for (author, sequence) in cursor.sequences.sorted(by: { $0.key < $1.key })
            where !listed.contains(author) || sequence > Int64.max {
                throw RemoteError.remoteRewound(
                    remote: remote, missing: LogPosition(author: author, sequence: sequence))
            }
            var page = PageBuilder(remote: remote, cursor: cursor, authors: listed.sorted())
            var rounds = 0
            // A page without entries says that there is nothing new: no log is left out of that.
            while rounds < PostgreSQLLimits.roundsOfPage || page.isEmpty, let wanted = page.wanted(limit: most) {
                rounds += 1
                let statement = RemoteTables.entries(from: wanted.positions, limit: wanted.limit, repository)
                let answer = try await connection.rows(statement, within: limit)
                try page.add(answer, to: wanted)
            }
            return page.finish()
        }

        private func authors() async throws -> Set<AuthorPseudonym> {
            let answer = try await connection.rows(RemoteTables.authors(repository), within: limit)
            guard answer.rowCount > 0 else {
                try await refuseOthers()
                return []
            }
            guard answer.rowCount <= Limits.remoteAuthors else {
                throw answer.unexpected("more than \(Limits.remoteAuthors) authors")
            }
            var found: Set<AuthorPseudonym> = []
            for row in 0..<answer.rowCount {
                try checkLayout(answer.integer(row, 0))
                // Names of another length are none of ours.
                if let author = answer.bytes(row, 1).flatMap({ AuthorPseudonym(bytes: $0) }) { found.insert(author) }
            }
            return found
        }

        // MARK: Objects

        /// The bytes of those objects that are there.
        func objects(_ ids: Set<ObjectID>, take: (ObjectID, [UInt8]) -> Void) async throws {
            let ordered = ids.sorted()
            for start in stride(from: 0, to: ordered.count, by: PostgreSQLLimits.identifiersAtOnce) {
                var wanted = Array(ordered[start..<min(start + PostgreSQLLimits.identifiersAtOnce, ordered.count)])
                while !wanted.isEmpty { wanted = try await some(of: wanted, take) }
            }
        }

        /// - Returns: Those that are there and did not fit into the answer.
        private func some(of wanted: [ObjectID], _ take: (ObjectID, [UInt8]) -> Void) async throws -> [ObjectID] {
            let answer = try await connection.rows(RemoteTables.objects(wanted, repository), within: limit)
            var missing = Set(wanted)
            var left: [ObjectID] = []
            for row in 0..<answer.rowCount {
                guard let id = answer.bytes(row, 0).flatMap({ ObjectID(bytes: $0) }), missing.remove(id) != nil else {
                    throw answer.unexpected("row \(row) is an object that was not asked for")
                }
                guard let bytes = answer.bytes(row, 1) else {
                    left.append(id)
                    continue
                }
                guard bytes.count <= Limits.envelopeBytes + 1 else {
                    throw answer.unexpected("an object of \(bytes.count) bytes")
                }
                take(id, Array(bytes))
            }
            guard left.isEmpty || left.count < answer.rowCount else { throw answer.unexpected("objects without bytes") }
            return left
        }
    }

    /// A page that is being filled, author by author. It does no I/O.
    struct PageBuilder {
        private let remote: String
        private var cursor: RemoteCursor
        /// Authors who may have more.
        private var open: [AuthorPseudonym]
        private var entries: [RemoteEntry] = []
        private var stalled: [RemoteStall] = []

        /// A question for entries: from which position of each author on, and how many of each.
        struct Wanted {
            let authors: [AuthorPseudonym]
            /// The entry of the cursor first, so that it is known to be there.
            let positions: [LogPosition]
            /// The entries of each that are taken.
            let share: Int
            /// The entries of all that are taken.
            let left: Int
            /// Two more: that of the cursor, and one that shows that there are more.
            var limit: Int { share + 2 }
        }

        init(remote: String, cursor: RemoteCursor, authors: [AuthorPseudonym]) {
            self.remote = remote
            self.cursor = cursor
            open = authors
        }

        var isEmpty: Bool { entries.isEmpty }

        /// - Returns: nil when the page is full, or there is nothing left.
        func wanted(limit: Int) -> Wanted? {
            let left = limit - entries.count
            guard left > 0, !open.isEmpty else { return nil }
            // A share for each, so that an author who writes without end cannot keep the others waiting.
            let authors = Array(open.prefix(max(left, PostgreSQLLimits.authorsAtOnce)))
            let positions = authors.map { LogPosition(author: $0, sequence: max(1, cursor.sequence(of: $0))) }
            return Wanted(
                authors: authors, positions: positions, share: max(1, left / authors.count), left: left)
        }

        /// - Throws: ``RemoteError`` `remoteRewound` where the entry of the cursor is missing; ``PostgreSQLError``
        ///   `invalidAnswer` for rows that are not in order.
        mutating func add(_ answer: Answer, to wanted: Wanted) throws {
            var row = 0
            var ended: Set<AuthorPseudonym> = []
            let end = entries.count + wanted.left
            for (index, author) in wanted.authors.enumerated() {
                let first = row
                while row < answer.rowCount, try answer.integer(row, 0) == Int64(index + 1) { row += 1 }
                guard row - first <= wanted.limit else { throw answer.unexpected("too many entries of one author") }
                let share = min(wanted.share, end - entries.count)
                let hasMore = try read(answer, first..<row, author, share: share)
                if !hasMore { ended.insert(author) }
            }
            open.removeAll(where: ended.contains)
            guard row == answer.rowCount else { throw answer.unexpected("row \(row) is of nothing asked for") }
        }

        /// - Returns: Whether more can be listed of the author.
        private mutating func read(
            _ answer: Answer, _ rows: Range<Int>, _ author: AuthorPseudonym, share: Int
        ) throws -> Bool {
            let last = cursor.sequence(of: author)
            var rows = rows
            if last > 0 {
                guard let first = rows.popFirst(), try answer.integer(first, 1) == Int64(clamping: last) else {
                    throw RemoteError.remoteRewound(
                        remote: remote, missing: LogPosition(author: author, sequence: last))
                }
            }
            for (number, row) in rows.enumerated() {
                if number == share { return true }
                let found = try answer.integer(row, 1)
                let position = LogPosition(author: author, sequence: cursor.sequence(of: author) + 1)
                guard found >= Int64(clamping: position.sequence) else {
                    throw answer.unexpected("entries are not in order")
                }
                guard found == Int64(clamping: position.sequence) else { return stall(position, .entryMissing) }
                guard let id = answer.bytes(row, 2).flatMap({ ObjectID(bytes: $0) }) else {
                    return stall(position, .entryDamaged)
                }
                guard answer.bytes(row, 3) != nil else { return stall(position, .objectMissing(id)) }
                entries.append(RemoteEntry(id: id, position: position))
                cursor.advance(after: position)
            }
            return false
        }

        private mutating func stall(_ position: LogPosition, _ reason: RemoteStall.Reason) -> Bool {
            stalled.append(RemoteStall(position: position, reason: reason))
            return false
        }

        func finish() -> RemotePage {
            RemotePage(entries: entries, next: cursor, hasMore: !open.isEmpty, stalled: stalled)
        }
    }
#endif
