import CipherDatabase

/// The tables in which a store keeps its repository. Their names begin with the prefix of the library's own objects, which
/// lists and comparisons of schemas leave out.
///
/// Commits are named by their number `n` in this store, which is not the same in others; a parent has a lower number than
/// its child. `body` is the canonical commit, of which `meta_bytes`, `delta_bytes` and `merge_bytes` are parts. `state` is
/// the ``RepositoryState/Growth`` of a commit that this store has made and has moved its head to.
enum SyncTables {
    static let prefix = "cipherstore_sync_"
    static let commit = prefix + "commit"
    static let author = prefix + "author"
    static let state = prefix + "state"
    static let table = prefix + "table"
    static let pending = prefix + "pending"
    static let remote = prefix + "remote"
    static let address = prefix + "address"
    static let outbox = prefix + "outbox"
    static let quarantine = prefix + "quarantine"
    static let conflict = prefix + "conflict"
    static let checkpoint = prefix + "checkpoint"
    static let part = prefix + "part"
    static let replica = prefix + "replica"
    static let stall = prefix + "stall"
    static let obstacle = prefix + "obstacle"
    static let changesetView = prefix + "changeset"
    static let headView = prefix + "head"

    /// - `state`: one row: the repository and its key, this replica's author, the head, and the number that the history of
    ///   changes had after the last transaction of the repository; the commits that are no parent, each as 64 bits; the
    ///   digests of the tables at the head. They are those after the commit `upto`: what own commits after it have
    ///   changed is in the row of the last one, so that a commit writes one page less.
    /// - `table`: the tracked tables.
    /// - `outbox`: what is to be pushed, with its place in the log of this replica; `remote.sequence` is the last place.
    /// - `remote`: the remotes. `stalled` counts the logs that cannot be read on for now; it is -1 until all were read for
    ///   the first time.
    /// - `address`: where the remotes are, by name, without passwords.
    /// - `pending`: commits that were fetched before one of their parents.
    static let creation = """
        CREATE TABLE main.\(commit) (
            n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, parent1 INTEGER, parent2 INTEGER,
            generation INTEGER NOT NULL, kind INTEGER NOT NULL, author INTEGER NOT NULL, sequence INTEGER NOT NULL,
            time INTEGER NOT NULL, meta_bytes INTEGER NOT NULL, delta_bytes INTEGER NOT NULL,
            merge_bytes INTEGER NOT NULL, state BLOB, body BLOB NOT NULL);
        CREATE TABLE main.\(author) (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE);
        CREATE TABLE main.\(state) (
            id INTEGER PRIMARY KEY CHECK (id = 1), repository BLOB NOT NULL, epoch INTEGER NOT NULL,
            secret BLOB NOT NULL, author INTEGER NOT NULL, sequence INTEGER NOT NULL, head INTEGER,
            history INTEGER NOT NULL, revision INTEGER NOT NULL, schema BLOB NOT NULL, leaves BLOB NOT NULL,
            digests BLOB NOT NULL, upto INTEGER NOT NULL);
        CREATE TABLE main.\(table) (name TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE main.\(pending) (
            id BLOB NOT NULL PRIMARY KEY, missing BLOB NOT NULL, body BLOB NOT NULL);
        CREATE INDEX main.\(pending)_missing ON \(pending) (missing);
        CREATE TABLE main.\(remote) (
            n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, pusher BLOB NOT NULL, cursor BLOB NOT NULL,
            sequence INTEGER NOT NULL, stalled INTEGER NOT NULL, error TEXT);
        CREATE TABLE main.\(address) (name TEXT NOT NULL PRIMARY KEY, address TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE main.\(outbox) (
            remote INTEGER NOT NULL, sequence INTEGER NOT NULL, n INTEGER NOT NULL,
            PRIMARY KEY (remote, sequence)) WITHOUT ROWID;
        CREATE INDEX main.\(outbox)_n ON \(outbox) (n);
        CREATE TABLE main.\(quarantine) (
            remote INTEGER NOT NULL, id BLOB NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (remote, id)) WITHOUT ROWID;
        CREATE TABLE main.\(conflict) (
            n INTEGER PRIMARY KEY, merge BLOB NOT NULL, name TEXT NOT NULL, key BLOB NOT NULL, column TEXT,
            base BLOB, ours BLOB, theirs BLOB, chosen BLOB, reason TEXT NOT NULL);
        CREATE VIEW main.\(changesetView) AS
            SELECT lower(hex(c.id)) AS uuid, nullif(lower(hex(p.id)), '') AS parent_uuid,
                substr(c.body, -(c.merge_bytes + 4 + c.delta_bytes), c.delta_bytes) AS parent_changeset,
                nullif(lower(hex(q.id)), '') AS merge_uuid,
                CASE WHEN c.merge_bytes > 0 THEN substr(c.body, -c.merge_bytes) END AS merge_changeset,
                EXISTS (SELECT 1 FROM \(remote))
                    AND NOT EXISTS (SELECT 1 FROM \(outbox) AS o WHERE o.n = c.n) AS pushed,
                CAST(substr(c.body, 64 + 32 * ((c.parent1 IS NOT NULL) + (c.parent2 IS NOT NULL)), c.meta_bytes)
                    AS TEXT) AS meta,
                c.n AS n
            FROM \(commit) AS c
            LEFT JOIN \(commit) AS p ON p.n = c.parent1
            LEFT JOIN \(commit) AS q ON q.n = c.parent2;
        CREATE VIEW main.\(headView) AS
            SELECT lower(hex(c.id)) AS uuid FROM \(state) AS s \(lastOwn("")) JOIN \(commit) AS c
                ON c.n = coalesce(l.n, s.head);
        """

    /// Joins the row `s` of the state with the last commit `l` that this store has made after the state was saved.
    static func lastOwn(_ schema: String = "main.") -> String {
        "LEFT JOIN \(schema)\(commit) AS l ON l.n > s.upto AND l.n = (SELECT max(n) FROM \(schema)\(commit))"
    }

    /// - `checkpoint`: the manifests of checkpoints; `applied` counts the parts that the rows have.
    /// - `part`: their parts, as far as they are here. While a checkpoint is made, its parts have the name of its commit.
    /// - `replica`: what the replicas have acknowledged at the remotes; this store's own is what it has put there last.
    static let creationForCheckpoints = """
        CREATE TABLE main.\(checkpoint) (
            id BLOB NOT NULL PRIMARY KEY, name BLOB NOT NULL, applied INTEGER NOT NULL, body BLOB NOT NULL);
        CREATE TABLE main.\(part) (
            checkpoint BLOB NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (checkpoint, number));
        CREATE TABLE main.\(replica) (
            remote INTEGER NOT NULL, author BLOB NOT NULL, retired INTEGER NOT NULL, body BLOB,
            PRIMARY KEY (remote, author)) WITHOUT ROWID;
        """

    /// - `stall`: the entries at which logs stand still, by the numbers of the remotes. `damaged` has two bits: 1 where an
    ///   entry is damaged, 2 where the log was given up.
    /// - `obstacle`: at most one row, the error with which the last pull has stopped.
    static let creationForReports = """
        CREATE TABLE main.\(stall) (
            remote INTEGER NOT NULL, author BLOB NOT NULL, sequence INTEGER NOT NULL, damaged INTEGER NOT NULL,
            since REAL NOT NULL, PRIMARY KEY (remote, author)) WITHOUT ROWID;
        CREATE TABLE main.\(obstacle) (
            id INTEGER PRIMARY KEY CHECK (id = 1), code TEXT NOT NULL, name TEXT, commit_id BLOB, detail TEXT,
            result_code INTEGER);
        """

    /// Makes the tables where there are none. Inside a transaction.
    static func create(_ db: Database) throws {
        if try !db.tableExists(state, in: "main") { try db.execute(sql: creation) }
        // A store that an earlier version has set up does not have these.
        if try !db.tableExists(replica, in: "main") { try db.execute(sql: creationForCheckpoints) }
        if try !db.tableExists(stall, in: "main") { try db.execute(sql: creationForReports) }
        if try !db.columns(in: obstacle, in: "main").contains(where: { $0.name == "result_code" }) {
            // Statements of the program may not alter it.
            try db.withoutHistoryUpkeep {
                try db.execute(sql: "ALTER TABLE main.\(obstacle) ADD COLUMN result_code INTEGER")
            }
        }
    }
}
