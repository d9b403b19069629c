#if PostgreSQL
    import ChangesetSync
    import Dispatch

    /// A database as a remote: PostgreSQL 14 or later.
    ///
    /// Any number of processes may use a database at once. Each statement is a transaction of its own and nothing stays on
    /// the server between two of them, so a pooler may stand between. A call whose connection was lost, or whose
    /// transaction has to be repeated, is repeated here. The tables: Docs/Formats/PostgreSQL.md.
    ///
    /// Settings for TLS are in the URL. Without `sslmode=verify-full` a program trusts any server that answers at the
    /// address. Such a server cannot read or change objects, and it may withhold them.
    // Safe because: what changes is used on `turn` alone.
    public final class PostgreSQLObjectStore: @unchecked Sendable {
        /// Bounds that suit most programs as they are.
        public struct Settings: Sendable {
            /// Longest wait for a connection.
            public var connectLimit = Duration.seconds(10)
            /// Longest wait for the answer to one statement, of up to five megabytes.
            public var statementLimit = Duration.seconds(60)
            /// How often a call is made at most, if it fails for a moment.
            public var attempts = 7

            public init() {}
        }

        /// `postgresql://host:5432/database`.
        public let name: String
        let repository: RepositoryID
        private let address: ServerAddress
        private let settings: Settings
        private let isShared: Bool
        private let turn = DispatchQueue(label: "CipherStore.PostgreSQLObjectStore")

        // On `turn`.
        private var connection: ServerConnection?
        private var lastUse = ContinuousClock.now
        private var isClosePlanned = false
        private var listing = ObjectListing()
        /// Whether the tables and the row of the repository were seen by the present connection.
        private var isPrepared = false

        /// Connects to nothing yet.
        ///
        /// - Parameters:
        ///   - url: `postgresql://user@host:port/database?sslmode=verify-full`, with all options of libpq. It may have a
        ///     password, which is kept in memory and printed nowhere; `~/.pgpass` or `PGPASSWORD` are better places.
        ///   - sharedWithOthers: Whether the database may hold other repositories too. Otherwise a database that holds only
        ///     others is taken for a wrong address.
        /// - Throws: ``PostgreSQLError`` `invalidURL`.
        /// - SeeAlso: <https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS>
        package init(
            url: String, repository: RepositoryID, sharedWithOthers: Bool = false, settings: Settings = Settings()
        ) throws(PostgreSQLError) {
            address = try ServerAddress(url: url, connectLimit: settings.connectLimit)
            name = address.name
            self.repository = repository
            self.settings = settings
            isShared = sharedWithOthers
        }

        /// The SQL of the tables, for an administrator who makes them for users without the right to.
        public static var setupStatements: [String] { ObjectTables.definitions }

        /// Makes the tables if there are none. ``put(_:_:)`` does it too.
        ///
        /// - Throws: ``PostgreSQLError`` `missingRights` if the user may not make them: see ``setupStatements``.
        public func setup() throws { try calling { try self.setUp($0) } }

        /// Closes a connection that is open. The next call opens another one.
        public func close() { turn.sync { self.closeNow() } }

        // MARK: Calls

        /// Makes a call again while it fails for a moment. Calls wait for each other.
        private func calling<Result>(_ body: (ServerConnection) throws -> Result) throws -> Result {
            try turn.sync {
                var retry = Retry(attempts: settings.attempts)
                while true {
                    do {
                        let connection = try openConnection()
                        defer { planClose() }
                        return try body(connection)
                    } catch let error as PostgreSQLError where error.isTransient {
                        guard let pause = retry.pause() else { throw error }
                        _ = DispatchSemaphore(value: 0).wait(
                            timeout: .now() + .milliseconds(Int(pause / .milliseconds(1))))
                    }
                }
            }
        }

        private func openConnection() throws -> ServerConnection {
            if let connection, isGood(connection) { return connection }
            closeNow()
            let deadline = ContinuousClock.now + settings.connectLimit
            for (index, options) in address.attempts.enumerated() {
                let left = address.attempts.count - index
                do {
                    let share = max(.milliseconds(1), deadline - .now) / left
                    let opened = try ServerConnection(remote: name, options, within: share)
                    connection = opened
                    return opened
                } catch let error as PostgreSQLError where left > 1 && error.permitsNextHost {
                    continue
                }
            }
            throw PostgreSQLError(.unreachable, name)
        }

        private func isGood(_ connection: ServerConnection) -> Bool {
            guard connection.isOpen, .now - connection.created < PostgreSQLLimits.connectionAge,
                connection.looksOpen()
            else { return false }
            guard .now - lastUse > PostgreSQLLimits.trustedIdleTime else { return true }
            let test = Statement("SELECT 1", columns: 1, mostRows: 1, valueBytes: 8)
            return (try? connection.run(test, within: PostgreSQLLimits.checkLimit)) != nil
        }

        private func closeNow() {
            connection?.close()
            connection = nil
            isPrepared = false
        }

        /// Closes the connection when it has been idle for a while: many replicas that wait use nothing of the server.
        private func planClose() {
            lastUse = .now
            guard !isClosePlanned else { return }
            isClosePlanned = true
            let delay = Int(PostgreSQLLimits.idleLimit / .milliseconds(1))
            turn.asyncAfter(deadline: .now() + .milliseconds(delay)) { [weak self] in
                guard let self else { return }
                isClosePlanned = false
                if .now - lastUse >= PostgreSQLLimits.idleLimit { closeNow() } else if connection != nil { planClose() }
            }
        }

        private func rows(_ statement: Statement, _ connection: ServerConnection) throws -> Answer {
            try connection.rows(statement, within: settings.statementLimit)
        }

        // MARK: Tables

        private func setUp(_ connection: ServerConnection) throws {
            do {
                _ = try rows(ObjectTables.probe, connection)
                return
            } catch let error as PostgreSQLError where error.code == .notSetUp {}
            try connection.run(ObjectTables.creation, within: settings.statementLimit)
            _ = try rows(ObjectTables.probe, connection)
        }

        /// Makes what is missing before an object is put.
        private func prepare(_ connection: ServerConnection) throws {
            if isPrepared { return }
            var found: Answer
            do {
                found = try rows(ObjectTables.layout(of: repository), connection)
            } catch let error as PostgreSQLError where error.code == .notSetUp {
                try setUp(connection)
                found = try rows(ObjectTables.layout(of: repository), connection)
            }
            if found.rowCount > 0 {
                try check(layout: found.integer(0, 0))
            } else {
                try refuseOthers(connection)
                try connection.run(ObjectTables.register(repository), within: settings.statementLimit)
            }
            isPrepared = true
        }

        private func check(layout: Int64) throws {
            guard layout == ObjectTables.layout else {
                throw PostgreSQLError(.unknownLayout, name, "layout \(layout)")
            }
        }

        /// Takes a database with other repositories only for a wrong address.
        private func refuseOthers(_ connection: ServerConnection) throws {
            guard !isShared else { return }
            let answer = try rows(ObjectTables.hasOthersOnly(repository), connection)
            guard answer.rowCount == 1 else { throw answer.unexpected("no row") }
            if try answer.integer(0, 0) != 0 { throw PostgreSQLError(.otherRepository, name) }
        }

        // MARK: Listing

        private func refreshListing(_ connection: ServerConnection) throws {
            let limit = PostgreSQLLimits.namesAtOnce
            let answer: Answer
            do {
                answer = try rows(
                    ObjectTables.changes(since: listing.position, limit: limit, repository), connection)
            } catch let error as PostgreSQLError where error.code == .notSetUp {
                // Nobody has put anything there.
                listing = ObjectListing()
                return
            }
            var new = listing
            var summary: Int?
            for row in 0..<answer.rowCount {
                guard let name = try Self.name(answer, row, 4) else {
                    guard summary == nil else { throw answer.unexpected("two summaries") }
                    summary = row
                    continue
                }
                new.add(name, mark: try answer.integer(row, 0))
            }
            guard let summary else { throw answer.unexpected("no summary") }
            let count = try answer.integer(summary, 1)
            if answer.bytes(summary, 0) != nil {
                try check(layout: answer.integer(summary, 0))
            } else if count == 0 {
                try refuseOthers(connection)
            }
            if try !new.has(count, fingerprint: answer.integer(summary, 2)) { new = try wholeListing(connection) }
            // Before the names: a later call repeats the names that came meanwhile.
            new.advance(to: try answer.integer(summary, 3))
            listing = new
        }

        private func wholeListing(_ connection: ServerConnection) throws -> ObjectListing {
            let limit = PostgreSQLLimits.namesAtOnce
            var (found, last) = (ObjectListing(), "")
            while true {
                let answer = try rows(ObjectTables.names(after: last, limit: limit, repository), connection)
                for row in 0..<answer.rowCount {
                    guard let name = try Self.name(answer, row, 1), last.utf8.lexicographicallyPrecedes(name.utf8)
                    else {
                        throw answer.unexpected("names are not in order")
                    }
                    found.add(name, mark: try answer.integer(row, 0))
                    last = name
                }
                guard found.objects.count <= ExchangeLimits.listedObjects else {
                    throw answer.unexpected("too many objects")
                }
                if answer.rowCount < limit { return found }
            }
        }

        /// A name of an answer; nil for NULL.
        private static func name(_ answer: Answer, _ row: Int, _ column: Int) throws -> String? {
            guard let bytes = answer.bytes(row, column) else { return nil }
            guard bytes.count <= PostgreSQLLimits.nameBytes, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw answer.unexpected("row \(row) has no name of an object")
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    extension PostgreSQLObjectStore: ObjectStore {
        package var description: String { name }

        package func list(_ prefix: String) throws -> [ListedObject] {
            try calling { connection in
                try refreshListing(connection)
                return prefix.isEmpty ? listing.objects : listing.objects.filter { $0.name.hasPrefix(prefix) }
            }
        }

        package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
            try calling { connection in
                let answer: Answer
                do {
                    answer = try rows(ObjectTables.get(name, limitBytes: limitBytes, repository), connection)
                } catch let error as PostgreSQLError where error.code == .notSetUp {
                    return nil
                }
                guard answer.rowCount > 0 else { return nil }
                guard let bytes = answer.bytes(0, 0), bytes.count <= limitBytes + 1 else {
                    throw answer.unexpected("an object without bytes, or of too many")
                }
                return Array(bytes)
            }
        }

        package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
            try calling { connection in
                try prepare(connection)
                do {
                    return try rows(ObjectTables.put(name, bytes, repository), connection).rowCount > 0
                        ? .stored : .alreadyPresent
                } catch let error as PostgreSQLError where error.code == .notSetUp {
                    // Somebody has dropped the tables since the connection was opened.
                    isPrepared = false
                    try prepare(connection)
                    return try rows(ObjectTables.put(name, bytes, repository), connection).rowCount > 0
                        ? .stored : .alreadyPresent
                }
            }
        }

        package func delete(_ name: String) throws {
            try calling { connection in
                let answer = try rows(ObjectTables.delete(name, repository), connection)
                guard answer.rowCount == 1 else { throw answer.unexpected("no row") }
                if try answer.integer(0, 0) > answer.integer(0, 1) {
                    throw PostgreSQLError(.missingRights, self.name, "another role has put it")
                }
            }
        }
    }

    extension PostgreSQLObjectStore: CustomReflectable {
        public var customMirror: Mirror { Mirror(self, children: ["name": name]) }
    }

    extension PostgreSQLError: ObjectStoreError {
        package var isRefusal: Bool { code == .missingRights || code == .readOnlyServer }
    }

    extension SyncManager {
        /// Exchanges the commits of a repository with a database of a server.
        ///
        /// - Parameters:
        ///   - url: `postgresql://user@host:port/database?sslmode=verify-full`, with all options of libpq.
        ///   - name: The name under which the store remembers the remote; the URL without credentials if there is none.
        ///   - sharedWithOthers: Whether the database may hold other repositories too. Otherwise a database that holds only
        ///     others is taken for a wrong address.
        /// - Throws: ``PostgreSQLError`` `invalidURL`; `DatabaseError`
        public convenience init(
            _ repository: ChangesetRepository, server url: String, named name: String? = nil,
            sharedWithOthers: Bool = false, settings: PostgreSQLObjectStore.Settings = .init()
        ) throws {
            let store = try PostgreSQLObjectStore(
                url: url, repository: try repository.store().repository, sharedWithOthers: sharedWithOthers,
                settings: settings)
            self.init(repository, remote: store, named: name ?? store.name)
        }
    }
#endif
