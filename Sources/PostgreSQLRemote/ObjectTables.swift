#if PostgreSQL
    import ChangesetSync

    /// The tables of a remote (Docs/Formats/PostgreSQL.md), and the statements on them.
    ///
    /// Every key begins with `repo`, and every statement names it. Each statement is a transaction.
    enum ObjectTables {
        /// The version of the tables that this library makes and reads.
        static let layout: Int64 = 2

        private static let schema = "cipherstore"
        private static let repository = schema + ".repository"
        private static let object = schema + ".object"
        private static let writer = schema + ".writer"

        // MARK: Making the tables

        /// The SQL of the tables, for an administrator.
        static let definitions = [
            "CREATE SCHEMA IF NOT EXISTS \(schema)",
            "CREATE TABLE \(repository) (repo bytea NOT NULL, layout bigint NOT NULL, PRIMARY KEY (repo))",
            """
            CREATE TABLE \(writer) (
                repo bytea NOT NULL, author text NOT NULL, role text NOT NULL, PRIMARY KEY (repo, author))
            """,
            """
            CREATE TABLE \(object) (
                repo bytea NOT NULL, name text COLLATE "C" NOT NULL CHECK (octet_length(name) <= 200),
                body bytea NOT NULL, role text NOT NULL DEFAULT current_user,
                txid bigint NOT NULL DEFAULT txid_current(), PRIMARY KEY (repo, name))
            """,
            "CREATE INDEX object_txid ON \(object) (repo, txid)",
            "CREATE POLICY read ON \(writer) FOR SELECT USING (true)",
            "CREATE POLICY read ON \(object) FOR SELECT USING (true)",
            """
            CREATE POLICY put ON \(object) FOR INSERT WITH CHECK (role = current_user AND (name !~ '^[cs]/'
                OR EXISTS (SELECT 1 FROM \(writer) AS w WHERE w.repo = object.repo
                    AND w.author = substr(object.name, 3, 16) AND w.role = current_user)
                OR NOT EXISTS (SELECT 1 FROM \(writer) AS w WHERE w.repo = object.repo
                    AND (w.author = substr(object.name, 3, 16) OR w.role = current_user))))
            """,
            "CREATE POLICY remove ON \(object) FOR DELETE USING (role = current_user)",
            "ALTER TABLE \(writer) ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE \(object) ENABLE ROW LEVEL SECURITY",
        ]

        /// Makes everything or nothing, once: of several at once all but the first find the tables.
        static let creation = Statement(
            """
            DO $setup$ BEGIN
            PERFORM pg_advisory_xact_lock(\(0x6369_7068_6572));
            IF to_regnamespace('\(schema)') IS NULL THEN \(definitions[0]); END IF;
            IF to_regclass('\(object)') IS NULL THEN
            \(definitions.dropFirst().map { $0 + ";" }.joined(separator: "\n"))
            END IF;
            END $setup$
            """)

        /// Fails if a table or a column is missing, or may not be read.
        static let probe = Statement(
            """
            SELECT 1::bigint FROM \(repository) AS r, \(object) AS o, \(writer) AS w
            WHERE r.repo = o.repo AND r.layout < 0 AND o.body IS NULL AND o.name = w.author AND o.role = w.role
                AND o.txid < 0 AND w.repo = r.repo LIMIT 0
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

        /// Whether there are other repositories, and not this one: 1 or 0.
        static func hasOthersOnly(_ repo: RepositoryID) -> Statement {
            Statement(
                """
                SELECT (EXISTS (SELECT 1 FROM \(repository))
                    AND NOT EXISTS (SELECT 1 FROM \(repository) WHERE repo = $1))::integer
                """, [.bytes(repo.bytes)], columns: 1, mostRows: 1, valueBytes: 8)
        }

        // MARK: Listing

        /// The mark of a name: the names of a repository have the exclusive or of their marks as a fingerprint.
        private static let mark = "hashtextextended(name, 0)"

        /// The first row has the layout or NULL, the number of the objects, their fingerprint, the position of the next call,
        /// and NULL. The others have a name as the last value, and its mark as the first one: objects that were put since the
        /// position, in any order, and a few that were put before it.
        ///
        /// A position is a transaction id. All transactions below the `xmin` of the statement's snapshot have ended, so a slow
        /// one is not missed, as a number in the order of insertion would do. Objects that came by a dump of another server
        /// may have greater ids than its next one: the fingerprint shows that they are missing.
        static func changes(since position: Int64, limit: Int, _ repo: RepositoryID) -> Statement {
            Statement(
                """
                SELECT (SELECT layout FROM \(repository) WHERE repo = $1), count(*), coalesce(bit_xor(\(mark)), 0),
                    txid_snapshot_xmin(txid_current_snapshot()), NULL::text
                FROM \(object) WHERE repo = $1
                UNION ALL (SELECT \(mark), NULL, NULL, NULL, name FROM \(object)
                    WHERE repo = $1 AND txid >= $2 AND txid < txid_snapshot_xmax(txid_current_snapshot()) LIMIT $3)
                """,
                [.bytes(repo.bytes), .integer(position), .integer(Int64(limit))], columns: 5, mostRows: limit + 1,
                valueBytes: 32 + limit * (8 + PostgreSQLLimits.nameBytes))
        }

        /// Names after another one in their order, with their marks.
        static func names(after name: String, limit: Int, _ repo: RepositoryID) -> Statement {
            Statement(
                "SELECT \(mark), name FROM \(object) WHERE repo = $1 AND name > $2 ORDER BY name LIMIT $3",
                [.bytes(repo.bytes), .text(name), .integer(Int64(limit))], columns: 2, mostRows: limit,
                valueBytes: limit * (8 + PostgreSQLLimits.nameBytes))
        }

        // MARK: Objects

        /// A statement that returns a row if it has stored the object.
        static func put(_ name: String, _ bytes: [UInt8], _ repo: RepositoryID) -> Statement {
            Statement(
                """
                INSERT INTO \(object) (repo, name, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1::bigint
                """, [.bytes(repo.bytes), .text(name), .bytes(bytes)], columns: 1, mostRows: 1, valueBytes: 8)
        }

        static func get(_ name: String, limitBytes: Int, _ repo: RepositoryID) -> Statement {
            Statement(
                "SELECT substring(body FROM 1 FOR $3::integer) FROM \(object) WHERE repo = $1 AND name = $2",
                [.bytes(repo.bytes), .text(name), .integer(Int64(limitBytes + 1))], columns: 1, mostRows: 1,
                valueBytes: limitBytes + 1)
        }

        /// A statement that returns the number of the objects of this name that were there, and that were removed: the rows of
        /// other roles stay without an error.
        static func delete(_ name: String, _ repo: RepositoryID) -> Statement {
            Statement(
                """
                WITH d AS (DELETE FROM \(object) WHERE repo = $1 AND name = $2 RETURNING 1)
                SELECT (SELECT count(*) FROM \(object) WHERE repo = $1 AND name = $2), (SELECT count(*) FROM d)
                """, [.bytes(repo.bytes), .text(name)], columns: 2, mostRows: 1, valueBytes: 16)
        }
    }
#endif
