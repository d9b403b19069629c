#if PostgreSQL
    import ChangesetSync

    /// The tables of a remote (Docs/Formats/PostgreSQL.md), and the statements on them.
    ///
    /// Every key begins with `repo`, and every statement names it: a database that distributes its rows by `repo` runs each
    /// statement on one node. There are no sequences, locks, notifications, savepoints or settings.
    enum RemoteTables {
        /// The version of the tables that this library makes and reads.
        static let layout: Int64 = 1

        private static let schema = "cipherstore"
        private static let repository = schema + ".repository"
        private static let object = schema + ".object"
        private static let log = schema + ".log"
        private static let acknowledgement = schema + ".acknowledgement"

        // MARK: Making the tables

        static let makeSchema = "CREATE SCHEMA IF NOT EXISTS \(schema)"

        static let makeTables = [
            """
            CREATE TABLE IF NOT EXISTS \(repository) (
                repo bytea NOT NULL, layout bigint NOT NULL, PRIMARY KEY (repo))
            """,
            """
            CREATE TABLE IF NOT EXISTS \(object) (
                repo bytea NOT NULL, id bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (repo, id))
            """,
            """
            CREATE TABLE IF NOT EXISTS \(log) (
                repo bytea NOT NULL, author bytea NOT NULL, push_seq bigint NOT NULL, id bytea NOT NULL,
                PRIMARY KEY (repo, author, push_seq))
            """,
            """
            CREATE TABLE IF NOT EXISTS \(acknowledgement) (
                repo bytea NOT NULL, author bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (repo, author))
            """,
        ]

        /// Fails where a table or a column is missing, or may not be read.
        static let probe = Statement(
            """
            SELECT 1 FROM \(repository) AS r, \(object) AS o, \(log) AS l, \(acknowledgement) AS a
            WHERE r.repo = o.repo AND o.repo = l.repo AND o.id = l.id AND o.body IS NULL AND r.layout < 0
                AND l.push_seq < 0 AND l.author IS NULL AND a.repo = l.repo AND a.author = l.author AND a.body IS NULL
            LIMIT 0
            """,
            columns: 1)

        // MARK: Repositories

        static func layout(of repo: RepositoryID) -> Statement {
            Statement(
                "SELECT layout FROM \(repository) WHERE repo = $1", [.bytes(repo.bytes)], columns: 1, mostRows: 1,
                valueBytes: 8)
        }

        static func register(_ repo: RepositoryID) -> Statement {
            Statement(
                "INSERT INTO \(repository) (repo, layout) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                [.bytes(repo.bytes), .integer(layout)])
        }

        /// Some repositories; this one first, if it is there.
        static func repositories(_ repo: RepositoryID) -> Statement {
            let limit = PostgreSQLLimits.namedRepositories
            return Statement(
                "SELECT repo FROM \(repository) ORDER BY repo <> $1, repo LIMIT $2",
                [.bytes(repo.bytes), .integer(Int64(limit))], columns: 1, mostRows: limit,
                valueBytes: limit * RepositoryID.byteCount)
        }

        // MARK: Writing

        /// - Parameter objects: Of different identifiers, in the order of these: writers who insert in the same order do not
        ///   wait for each other in a circle.
        /// - Returns: A statement that returns the identifiers that were not there.
        static func insert(_ objects: [RemoteObject], _ repo: RepositoryID) -> Statement {
            let rows = objects.indices.map { "($1,$\(2 * $0 + 2),$\(2 * $0 + 3))" }.joined(separator: ",")
            return Statement(
                "INSERT INTO \(object) (repo, id, body) VALUES \(rows) ON CONFLICT DO NOTHING RETURNING id",
                [.bytes(repo.bytes)] + objects.flatMap { [.bytes($0.id.bytes), .bytes($0.bytes)] },
                columns: 1, mostRows: objects.count, valueBytes: objects.count * ObjectID.byteCount)
        }

        /// A statement that inserts all of the entries, or none and fails with SQLSTATE 23505: where one position is taken by
        /// another object, what follows it must not be in the log.
        static func insert(_ entries: [RemoteEntry], _ repo: RepositoryID) -> Statement {
            let rows = entries.indices.map { "($1,$\(3 * $0 + 2),$\(3 * $0 + 3),$\(3 * $0 + 4))" }
                .joined(separator: ",")
            let values = entries.flatMap { entry -> [Statement.Value] in
                let position = entry.position
                return [
                    .bytes(position.author.bytes), .integer(Int64(clamping: position.sequence)),
                    .bytes(entry.id.bytes),
                ]
            }
            return Statement(
                "INSERT INTO \(log) (repo, author, push_seq, id) VALUES \(rows)", [.bytes(repo.bytes)] + values)
        }

        // MARK: Reading

        /// The number of each position, from 1, and the identifier that is entered there, or NULL.
        ///
        /// Subqueries, because a join may be planned as one over the whole table.
        static func identifiers(at positions: [LogPosition], _ repo: RepositoryID) -> Statement {
            Statement(
                """
                SELECT w.n, (SELECT l.id FROM \(log) AS l
                    WHERE l.repo = $1 AND l.author = w.author AND l.push_seq = w.seq)
                FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY AS w(author, seq, n)
                """,
                [
                    .bytes(repo.bytes), .byteList(positions.map(\.author.bytes)),
                    .integerList(positions.map { Int64(clamping: $0.sequence) }),
                ],
                columns: 2, mostRows: positions.count, valueBytes: positions.count * (8 + ObjectID.byteCount))
        }

        /// The layout of the repository in each row, and in each an author who has a log, or NULL: no row for an unknown
        /// repository.
        ///
        /// Each author is found by one look into the index after the one before.
        static func authors(_ repo: RepositoryID) -> Statement {
            let limit = Limits.remoteAuthors + 1
            return Statement(
                """
                WITH RECURSIVE a(author) AS (
                    (SELECT author FROM \(log) WHERE repo = $1 ORDER BY author LIMIT 1)
                    UNION ALL
                    SELECT (SELECT l.author FROM \(log) AS l WHERE l.repo = $1 AND l.author > a.author
                        ORDER BY l.author LIMIT 1)
                    FROM a WHERE a.author IS NOT NULL)
                SELECT r.layout, a.author FROM \(repository) AS r LEFT JOIN a ON a.author IS NOT NULL
                WHERE r.repo = $1 LIMIT $2
                """,
                [.bytes(repo.bytes), .integer(Int64(limit))], columns: 2, mostRows: limit,
                valueBytes: limit * (8 + AuthorPseudonym.byteCount))
        }

        /// Entries of logs in their order: the number of the position from which on they are read, sequence, identifier, and
        /// 1 or NULL for whether the object is there.
        ///
        /// - Parameter limit: The most entries of each.
        static func entries(from positions: [LogPosition], limit: Int, _ repo: RepositoryID) -> Statement {
            let rows = positions.count * limit
            return Statement(
                """
                SELECT w.n, l.push_seq, l.id, (SELECT 1::bigint FROM \(object) AS o WHERE o.repo = $1 AND o.id = l.id)
                FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY AS w(author, seq, n)
                CROSS JOIN LATERAL (SELECT e.push_seq, e.id FROM \(log) AS e
                    WHERE e.repo = $1 AND e.author = w.author AND e.push_seq >= w.seq
                    ORDER BY e.push_seq LIMIT $4) AS l
                ORDER BY w.n, l.push_seq
                """,
                [
                    .bytes(repo.bytes), .byteList(positions.map(\.author.bytes)),
                    .integerList(positions.map { Int64(clamping: $0.sequence) }), .integer(Int64(limit)),
                ],
                columns: 4, mostRows: rows, valueBytes: rows * (24 + ObjectID.byteCount))
        }

        /// Objects that are there: identifier and body. A longer body than any envelope is truncated. Bodies after the first
        /// that do not fit into one answer are NULL.
        ///
        /// Each is found by one look into the index. Of a repository that is newer than its statistics a server expects one
        /// row, and would read all of it and compare each row with the identifiers.
        static func objects(_ ids: [ObjectID], _ repo: RepositoryID) -> Statement {
            let longest = Limits.envelopeBytes + 1
            let total = PostgreSQLLimits.answerBytes
            return Statement(
                """
                SELECT o.id, CASE WHEN o.total <= $4 THEN substring(o.body FROM 1 FOR $3::integer) END FROM (
                    SELECT w.id, b.body, sum(least(octet_length(b.body), $3)) OVER (ORDER BY w.n) AS total
                    FROM unnest($2::bytea[]) WITH ORDINALITY AS w(id, n)
                    CROSS JOIN LATERAL (SELECT body FROM \(object) WHERE repo = $1 AND id = w.id LIMIT 1) AS b) AS o
                """,
                [
                    .bytes(repo.bytes), .byteList(ids.map(\.bytes)), .integer(Int64(longest)), .integer(Int64(total)),
                ],
                columns: 2, mostRows: ids.count, valueBytes: total + ids.count * ObjectID.byteCount)
        }

        // MARK: Acknowledgements

        /// What an author has acknowledged, up to one byte more than the longest acknowledgement.
        static func acknowledgement(of author: AuthorPseudonym, _ repo: RepositoryID) -> Statement {
            let longest = Limits.acknowledgementBytes + 1
            return Statement(
                "SELECT substring(body FROM 1 FOR $3::integer) FROM \(acknowledgement) WHERE repo = $1 AND author = $2",
                [.bytes(repo.bytes), .bytes(author.bytes), .integer(Int64(longest))], columns: 1, mostRows: 1,
                valueBytes: longest)
        }

        /// A statement that returns a row where it has written.
        ///
        /// It writes only where there is still what was read before it. A statement whose connection was lost may be executed
        /// later than those that were sent after it, and must not bring an older acknowledgement back.
        ///
        /// - Parameter former: What was read; nil where there was nothing.
        static func acknowledge(
            _ new: RemoteAcknowledgement, replacing former: [UInt8]?, _ repo: RepositoryID
        ) -> Statement {
            let values: [Statement.Value] = [.bytes(repo.bytes), .bytes(new.author.bytes), .bytes(new.bytes)]
            guard let former else {
                return Statement(
                    """
                    INSERT INTO \(acknowledgement) (repo, author, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
                    RETURNING 1::bigint
                    """, values, columns: 1, mostRows: 1, valueBytes: 8)
            }
            return Statement(
                """
                UPDATE \(acknowledgement) SET body = $3
                WHERE repo = $1 AND author = $2 AND substring(body FROM 1 FOR $5::integer) = $4 RETURNING 1::bigint
                """,
                values + [.bytes(former), .integer(Int64(Limits.acknowledgementBytes + 1))], columns: 1, mostRows: 1,
                valueBytes: 8)
        }

        /// The layout of the repository in each row, and in each an author after another one and what it has acknowledged:
        /// no row for an unknown repository, NULL where nobody is left. What is too long is truncated; what does not fit
        /// into one answer is NULL.
        static func acknowledgements(after author: [UInt8], _ repo: RepositoryID) -> Statement {
            let (longest, total) = (Limits.acknowledgementBytes + 1, PostgreSQLLimits.answerBytes)
            let limit = PostgreSQLLimits.acknowledgementsAtOnce
            return Statement(
                """
                SELECT r.layout, a.author, CASE WHEN a.total <= $4 THEN substring(a.body FROM 1 FOR $3::integer) END
                FROM \(repository) AS r LEFT JOIN (
                    SELECT author, body, sum(least(octet_length(body), $3)) OVER (ORDER BY author) AS total FROM (
                        SELECT author, body FROM \(acknowledgement) WHERE repo = $1 AND author > $2
                        ORDER BY author LIMIT $5) AS p) AS a ON a.author IS NOT NULL
                WHERE r.repo = $1 ORDER BY a.author
                """,
                [
                    .bytes(repo.bytes), .bytes(author), .integer(Int64(longest)), .integer(Int64(total)),
                    .integer(Int64(limit)),
                ],
                columns: 3, mostRows: limit, valueBytes: total + limit * (8 + AuthorPseudonym.byteCount))
        }

        // MARK: Removing

        static func delete(_ ids: [ObjectID], _ repo: RepositoryID) -> Statement {
            Statement(
                "DELETE FROM \(object) WHERE repo = $1 AND id = ANY($2::bytea[])",
                [.bytes(repo.bytes), .byteList(ids.map(\.bytes))])
        }

        /// Some entries of a log in their order: sequence and identifier.
        static func entries(
            of author: AuthorPseudonym, _ range: ClosedRange<Int64>, _ repo: RepositoryID
        ) -> Statement {
            let limit = PostgreSQLLimits.objectsAtOnce
            return Statement(
                """
                SELECT push_seq, id FROM \(log) WHERE repo = $1 AND author = $2 AND push_seq BETWEEN $3 AND $4
                ORDER BY push_seq LIMIT $5
                """,
                [
                    .bytes(repo.bytes), .bytes(author.bytes), .integer(range.lowerBound), .integer(range.upperBound),
                    .integer(Int64(limit)),
                ],
                columns: 2, mostRows: limit, valueBytes: limit * (8 + ObjectID.byteCount))
        }

        static func deleteEntries(
            of author: AuthorPseudonym, _ range: Range<Int64>, _ repo: RepositoryID
        ) -> Statement {
            Statement(
                "DELETE FROM \(log) WHERE repo = $1 AND author = $2 AND push_seq >= $3 AND push_seq < $4",
                [
                    .bytes(repo.bytes), .bytes(author.bytes), .integer(range.lowerBound), .integer(range.upperBound),
                ])
        }
    }
#endif
