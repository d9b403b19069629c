/// The tables and views of what a program asks the repository for.
///
/// | table or view | what it has |
/// |---|---|
/// | `merge` | the latest unions of commits that the rows were the state of, as this store has named them |
/// | `remote` | how far each remote has the commits of this store |
/// | `problem` | what the last exchange with a remote could not use or do |
/// | `changeset`, `head` | the records ``Changeset`` and ``Head`` |
///
/// `meta` of a commit is NULL for `{}`.
extension EngineTables {
    static let merge = "main.\(prefix)merge"
    static let remote = "main.\(prefix)remote"
    static let problem = "main.\(prefix)problem"
    static let changesetView = prefix + "changeset"
    static let headView = prefix + "head"

    /// The kinds of rows of the view of changesets.
    enum RecordKind {
        static let joined = 0
        static let waiting = 1
        static let merge = 2
    }

    static let recordCreation = """
        CREATE TABLE \(merge) (
            n INTEGER PRIMARY KEY, uuid BLOB NOT NULL, parent BLOB, other BLOB, vector BLOB NOT NULL);
        CREATE TABLE \(remote) (
            name TEXT NOT NULL PRIMARY KEY, upto INTEGER NOT NULL, time INTEGER NOT NULL,
            snapshot BLOB) WITHOUT ROWID;
        CREATE TABLE \(problem) (
            remote TEXT NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL, detail INTEGER NOT NULL,
            PRIMARY KEY (remote, kind, name)) WITHOUT ROWID;
        CREATE VIEW main.\(changesetView) AS
            SELECT lower(hex(c.hash)) AS uuid, nullif(lower(hex(p.hash)), '') AS parent_uuid,
                coalesce(\(LongBodies.content(of: "c", from: prefix + "body")), x'') AS parent_changeset,
                NULL AS merge_uuid, NULL AS merge_changeset,
                EXISTS (SELECT 1 FROM \(prefix)remote)
                    AND NOT EXISTS (SELECT 1 FROM \(prefix)remote AS r WHERE r.upto < c.n) AS pushed,
                coalesce(c.meta, '{}') AS meta, \(RecordKind.joined) AS kind, c.n AS n
            FROM \(prefix)commit AS c LEFT JOIN \(prefix)commit AS p ON p.n = c.parent AND p.n <> c.n
            WHERE length(c.hash) = \(CommitHash.byteCount)
            UNION ALL
            SELECT lower(hex(hash)), CASE WHEN number > 1 THEN lower(hex(previous)) END,
                \(LongBodies.content(of: "i", from: prefix + "body")), NULL, NULL,
                (SELECT count(*) FROM \(prefix)remote) = 1, coalesce(meta, '{}'), \(RecordKind.waiting), n
            FROM \(prefix)inbox AS i WHERE refused = 0
            UNION ALL
            SELECT lower(hex(uuid)), nullif(lower(hex(parent)), ''), x'', nullif(lower(hex(other)), ''), x'', 0, '',
                \(RecordKind.merge), n
            FROM \(prefix)merge;
        CREATE VIEW main.\(headView) AS
            SELECT lower(hex(head)) AS uuid FROM \(prefix)state WHERE head IS NOT NULL;
        """
}
