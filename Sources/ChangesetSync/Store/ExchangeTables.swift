/// The tables of the engine for the exchange with remotes.
///
/// | table | what it has |
/// |---|---|
/// | `identity` | the keys of this replica and the secret of the roster |
/// | `record`, `epoch` | the records of the list of members, and the secrets of epochs that were learned |
/// | `object` | what this store knows of the objects of each remote |
/// | `segment_part` | the contents of fetched parts of long segments, until all are here |
/// | `received`, `part` | snapshots that were fetched and wait, with their parts; a ``JoinPlace`` is a part too |
extension EngineTables {
    static let identity = "main.\(prefix)identity"
    static let record = "main.\(prefix)record"
    static let epoch = "main.\(prefix)epoch"
    static let object = "main.\(prefix)object"
    static let received = "main.\(prefix)received"
    static let segmentPart = "main.\(prefix)segment_part"
    static let part = "main.\(prefix)part"

    static let exchangeCreation = """
        CREATE TABLE \(identity) (
            id INTEGER PRIMARY KEY CHECK (id = 1), signing BLOB NOT NULL, agreement BLOB NOT NULL,
            roster BLOB NOT NULL);
        CREATE TABLE \(record) (hash BLOB PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE \(epoch) (hash BLOB PRIMARY KEY, secret BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE \(object) (
            remote TEXT NOT NULL, name TEXT NOT NULL, state INTEGER NOT NULL, PRIMARY KEY (remote, name)) WITHOUT ROWID;
        CREATE TABLE \(segmentPart) (
            remote TEXT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL, PRIMARY KEY (remote, name));
        CREATE TABLE \(received) (n INTEGER PRIMARY KEY, vector BLOB NOT NULL, whole INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE \(part) (
            snapshot INTEGER NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL,
            PRIMARY KEY (snapshot, number)) WITHOUT ROWID;
        """
}
