#if PostgreSQL
    import ChangesetSync

    /// A database as a remote: PostgreSQL, or a server that speaks its protocol and its SQL.
    ///
    /// Any number of processes may use it at once. Each statement is a transaction of its own and nothing stays on the
    /// server between two of them, so it works through a pooler. What fails for a moment, a lost connection or a transaction
    /// that has to be repeated, is repeated here. The tables: Docs/Formats/PostgreSQL.md.
    ///
    /// Settings for TLS are in the URL. Without `sslmode=verify-full` a server is believed to be the one it says it is: it
    /// cannot read or change objects, but may withhold them.
    public final class PostgreSQLRemote: SyncRemote {
        /// Bounds that suit most programs as they are.
        public struct Settings: Sendable {
            /// The most connections that are open at once, 1 at least. Further calls wait.
            public var connections = 4
            /// Longest wait for a connection.
            public var connectLimit = Duration.seconds(10)
            /// Longest wait for the answer to one statement, of up to four megabytes.
            public var statementLimit = Duration.seconds(60)
            /// How often a call is made at most, if it fails for a moment.
            public var attempts = 7

            public init() {}
        }

        /// `postgresql://host:5432/database`.
        public let name: String
        public let repository: RepositoryID

        private let pool: ConnectionPool
        private let settings: Settings
        private let isShared: Bool

        /// Connects to nothing yet.
        ///
        /// - Parameters:
        ///   - url: `postgresql://user@host:port/database?sslmode=verify-full`, with all options of libpq. It may have a
        ///     password, which is kept in memory and printed nowhere; `~/.pgpass` or `PGPASSWORD` are better places.
        ///   - sharedWithOthers: Whether the database may hold other repositories as well. Otherwise a database that holds
        ///     only others is taken for a wrong address.
        /// - Throws: ``PostgreSQLError`` `invalidURL`.
        /// - SeeAlso: <https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS>
        public init(
            url: String, repository: RepositoryID, sharedWithOthers: Bool = false, settings: Settings = Settings()
        ) throws(PostgreSQLError) {
            let address = try ServerAddress(url: url, connectLimit: settings.connectLimit)
            name = address.name
            self.repository = repository
            self.settings = settings
            isShared = sharedWithOthers
            pool = ConnectionPool(address, limit: settings.connections, connectLimit: settings.connectLimit)
        }

        /// Creates the schema and the tables that are missing. Anybody may call it at any time, also two at once.
        ///
        /// - Throws: ``PostgreSQLError`` `missingRights` where the user may not create them: see ``setupStatements``.
        public func setup() async throws {
            try await retrying { connection in
                let limit = self.settings.statementLimit
                do {
                    try await connection.run(RemoteTables.probe, within: limit)
                    return
                } catch let error as PostgreSQLError where error.code == .notSetUp {}
                var refusal: PostgreSQLError?
                do {
                    try await connection.run(Statement(RemoteTables.makeSchema), within: limit)
                } catch let error as PostgreSQLError where error.code == .missingRights {
                    // It may be there, made by somebody who had the right.
                    refusal = error
                } catch let error as PostgreSQLError where error.isDuplicateDefinition {
                    // Another one has created it a moment ago, which `IF NOT EXISTS` does not wait for.
                }
                for statement in RemoteTables.makeTables {
                    do {
                        try await connection.run(Statement(statement), within: limit)
                    } catch let error as PostgreSQLError where error.isDuplicateDefinition {
                        continue
                    } catch let error as PostgreSQLError where error.code == .notSetUp {
                        throw refusal ?? error
                    }
                }
                try await connection.run(RemoteTables.probe, within: limit)
            }
        }

        /// The SQL of ``setup()``, for an administrator who runs it for a user without the right to.
        public static var setupStatements: [String] { [RemoteTables.makeSchema] + RemoteTables.makeTables }

        public func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
            try RemoteError.check(objects, of: repository, at: name)
            for position in objects.compactMap(\.position) where position.sequence > Int64.max {
                throw RemoteError.invalidPosition(position)
            }
            guard !objects.isEmpty else { return [] }
            let batches = ObjectWriter.batches(of: objects)
            if batches.count > 1 { try await retrying { try await self.writer($0).prepare(for: objects[...]) } }
            var results: [PutResult] = []
            for batch in batches {
                try Task.checkCancellation()
                results += try await retrying { connection in
                    // For each batch: a server that comes back may have been restored from a backup.
                    let writer = self.writer(connection)
                    try await writer.prepare(for: batch)
                    return try await writer.put(batch)
                }
                if case .collision = results.last { break }
            }
            return results
        }

        public func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
            let entries = max(1, min(limit, Limits.remotePageEntries))
            return try await retrying { try await self.reader($0).list(after: cursor, limit: entries) }
        }

        public func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
            var found: [ObjectID: [UInt8]] = [:]
            try await retrying { connection in
                let missing = Set(ids).subtracting(found.keys)
                try await self.reader(connection).objects(missing) { found[$0] = $1 }
            }
            return ids.compactMap { id in
                found[id].map { RemoteObject(repository: repository, id: id, position: nil, bytes: $0) }
            }
        }

        /// Connections that are open, or being opened or closed, and those of them that nobody uses.
        var connectionCounts: (open: Int, idle: Int, waiting: Int) { pool.counts }

        /// Closes what nobody uses. It happens by itself after a while.
        public func closeIdleConnections() { pool.closeIdle(since: .now) }

        public var compaction: (any RemoteCompaction)? { self }

        func reader(_ connection: Connection) -> ObjectReader {
            ObjectReader(
                connection: connection, repository: repository, remote: name, isShared: isShared,
                limit: settings.statementLimit)
        }

        private func writer(_ connection: Connection) -> ObjectWriter { ObjectWriter(reader: reader(connection)) }

        /// Makes a call again while it fails for a moment.
        func retrying<Result>(_ body: (Connection) async throws -> Result) async throws -> Result {
            var retry = Retry(attempts: settings.attempts)
            while true {
                do {
                    return try await pool.withConnection(body)
                } catch let error as PostgreSQLError where error.isTransient {
                    guard let pause = retry.pause() else { throw error }
                    try await Task.sleep(for: pause)
                }
            }
        }
    }

    extension PostgreSQLError {
        /// Whether something was created by another one at the same moment.
        fileprivate var isDuplicateDefinition: Bool {
            ["23505", "42P06", "42P07", "42710", "XX000"].contains(sqlState ?? "")
        }
    }
#endif
