import Testing

// The tables of ProgramKeyTests.
extension ProgramKeyTests {
    /// A definition, with statements that fill it.
    struct Shape: Sendable, CustomTestStringConvertible {
        let name: String
        let sql: String
        /// How its rows are compared.
        var order = "rowid"
        var encoding = "UTF-8"
        /// Indexes that only the program can build.
        var leftOut: Set<String> = []
        /// Whether a salvage lists its rows, as only the program can make the table.
        var isListed = false
        var testDescription: String { name }
    }

    static let mixed = """
        INSERT INTO t VALUES ('b', 1, 'x'), ('a', 2, NULL), (NULL, 3, 'y'), (NULL, 4, 'z'), (7, 5, 'w'), (1.5, 6, 'v'),
            (x'00ff', 7, 'u'), ('', 8, 't'), ('c', 9, 's'), (x'', 10, 'r');
        WITH RECURSIVE c (i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM c WHERE i < 900)
        INSERT INTO t SELECT 'k' || (i * 7 % 1009), i, 'n' || (i % 13) FROM c;
        """
    static let keyed = """
        INSERT INTO t VALUES ('b', 1, 'x'), ('a', 2, 'q'), (7, 5, 'w'), (x'00ff', 7, 'u'), ('', 8, 't');
        WITH RECURSIVE c (i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM c WHERE i < 900)
        INSERT INTO t SELECT 'k' || (i * 7 % 1009), i, 'n' || (i % 13) FROM c;
        """

    static let keys = [
        Shape(name: "UNIQUE", sql: "CREATE TABLE t (a COLLATE prog UNIQUE, b INT, c); \(mixed)"),
        Shape(
            name: "PRIMARY KEY", sql: "CREATE TABLE t (a TEXT COLLATE prog PRIMARY KEY, b INT, c); \(mixed)"),
        Shape(
            name: "descending, beside keys of SQLite",
            sql: """
                CREATE TABLE t (a, b INTEGER UNIQUE, c TEXT, UNIQUE (a COLLATE prog DESC, b DESC),
                    UNIQUE (c, a COLLATE PROG), UNIQUE (c COLLATE NOCASE DESC, b)); \(mixed)
                """),
        Shape(
            name: "WITHOUT ROWID",
            sql: "CREATE TABLE t (a TEXT COLLATE prog PRIMARY KEY, b INT, c UNIQUE ON CONFLICT IGNORE) WITHOUT ROWID; "
                + keyed, order: "a COLLATE BINARY"),
        Shape(
            name: "WITHOUT ROWID, descending",
            sql: "CREATE TABLE t (a TEXT, b INT, c TEXT COLLATE prog, PRIMARY KEY (c DESC, a)) WITHOUT ROWID; \(keyed)",
            order: "a COLLATE BINARY"),
        Shape(
            name: "WITHOUT ROWID, two columns",
            sql: """
                CREATE TABLE t (a TEXT COLLATE prog, b COLLATE PROG, c, PRIMARY KEY (a, b DESC)) WITHOUT ROWID;
                INSERT INTO t VALUES ('b', 1, 'x'), ('b', 'c', 'q'), ('b', x'00', 'w'), (7, 'a', 'u'), (7, 'b', NULL);
                WITH RECURSIVE c (i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM c WHERE i < 900)
                INSERT INTO t SELECT 'k' || (i * 7 % 11), 'm' || i, 'n' || (i % 13) FROM c;
                """, order: "a COLLATE BINARY, b COLLATE BINARY"),
        Shape(
            name: "WITHOUT ROWID, a second key",
            sql: "CREATE TABLE t (a TEXT COLLATE prog UNIQUE, b INT PRIMARY KEY, c) WITHOUT ROWID; \(keyed)",
            order: "b", isListed: true),
        Shape(
            name: "in UTF-16", sql: "CREATE TABLE t (a TEXT COLLATE prog UNIQUE, b INT, c); \(mixed)",
            encoding: "UTF-16le"),
        Shape(
            name: "a generated column that SQLite computes",
            sql: """
                CREATE TABLE t (a TEXT CHECK (prog_f(a) <> 'x'), b INT, c AS (b || a) UNIQUE, d INT AS (b * 2),
                    UNIQUE (d DESC, b)); INSERT INTO t VALUES ('b', 10), ('a', 9), (NULL, 100), ('', NULL), ('c', 1.5)
                """),
        Shape(
            name: "a generated column with a collation",
            sql: """
                CREATE TABLE t (a TEXT, b INT, c TEXT COLLATE prog AS (a || b) UNIQUE);
                INSERT INTO t VALUES ('b', 10), ('a', 9), (NULL, 100), ('', NULL), ('c', 1), ('C', 1)
                """),
    ]

    /// Tables that only the program can copy, each with what its refusal names.
    static let refused: [(Shape, needs: String)] = [
        (
            Shape(
                name: "a generated column that only the program computes",
                sql: "CREATE TABLE t (a, v AS (prog_f(a)) UNIQUE); INSERT INTO t VALUES ('ab'), ('cd')"),
            "function prog_f"
        ),
        (
            Shape(
                name: "a generated column that compares by the program's collation",
                sql: "CREATE TABLE t (a, v AS (a < 'b' COLLATE prog) UNIQUE); INSERT INTO t VALUES ('ab'), ('cd')"),
            "collation prog"
        ),
        (
            Shape(
                name: "WITHOUT ROWID, two keys",
                sql: """
                    CREATE TABLE t (a COLLATE prog PRIMARY KEY, b COLLATE prog UNIQUE) WITHOUT ROWID;
                    INSERT INTO t VALUES ('a', 'b'), ('c', 'a')
                    """, isListed: true), "collation prog"
        ),
        (
            Shape(
                name: "WITHOUT ROWID, a generated column",
                sql: """
                    CREATE TABLE t (a PRIMARY KEY, b DEFAULT (uuid()), v AS (length(a)) UNIQUE) WITHOUT ROWID;
                    INSERT INTO t VALUES ('a', 'b'), ('cd', 'a')
                    """, isListed: true), "function uuid"
        ),
        (
            Shape(
                name: "columns that hide the row id",
                sql: """
                    CREATE TABLE t (rowid, oid, _rowid_ CHECK (prog_f(_rowid_) <> 'x'));
                    INSERT INTO t VALUES (1, 2, 3), (4, 5, 6)
                    """, isListed: true), "function prog_f"
        ),
    ]

    static let definitions = [
        Shape(
            name: "REGEXP, and checks that compare",
            sql: """
                CREATE TABLE t (a TEXT CHECK (a NOT REGEXP '^k' OR a REGEXP '^k'), b CHECK (b <> 'q' COLLATE prog) UNIQUE,
                    "regexp" DEFAULT 1, s TEXT AS (prog_f(a)) STORED UNIQUE);
                INSERT INTO t (a, b) VALUES ('ka', 'b'), ('kb', 'a'), (NULL, NULL);
                """),
        Shape(
            name: "AUTOINCREMENT",
            sql: """
                CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, d DEFAULT (uuid()));
                CREATE TABLE other (id INTEGER PRIMARY KEY AUTOINCREMENT);
                INSERT INTO t VALUES (3, 'a'), (9, 'b'); INSERT INTO other VALUES (5);
                DELETE FROM t WHERE id = 9;
                """),
        Shape(
            name: "INTEGER PRIMARY KEY DESC",
            sql: """
                CREATE TABLE t (id INTEGER PRIMARY KEY DESC, d CHECK (prog_f(d) <> 'x'));
                INSERT INTO t (rowid, id, d) VALUES (10, 3, 'a'), (20, 1, 'b'), (30, NULL, 'c');
                """),
        Shape(
            name: "INTEGER PRIMARY KEY DESC without parts",
            sql: """
                CREATE TABLE t (id INTEGER PRIMARY KEY DESC, d);
                INSERT INTO t (rowid, id, d) VALUES (10, 3, 'a'), (20, 1, 'b'), (30, NULL, 'c');
                """),
        Shape(
            name: "STRICT",
            sql: """
                CREATE TABLE t (id INTEGER PRIMARY KEY, r REAL NOT NULL, a ANY, s TEXT CHECK (prog_f(s) <> 'x')) STRICT;
                INSERT INTO t VALUES (1, 1, '1', 'a'), (2, 2.5, 2, NULL), (3, 1e300, x'01', '');
                """),
        Shape(
            name: "generated columns",
            sql: """
                CREATE TABLE t (a, v AS (prog_f(a)), s AS (prog_f(a)) STORED, w INT AS (length(a)), b REAL UNIQUE);
                CREATE INDEX t_w ON t (w);
                INSERT INTO t (a, b) VALUES ('abc', 1), ('de', 2.5), (NULL, NULL);
                """),
        Shape(
            name: "columns added later",
            sql: """
                CREATE TABLE t (a TEXT DEFAULT (uuid()), b INT);
                INSERT INTO t VALUES ('x', 1), ('y', 2);
                ALTER TABLE t ADD COLUMN c TEXT NOT NULL DEFAULT 'late';
                ALTER TABLE t ADD COLUMN d REAL DEFAULT 5;
                ALTER TABLE t ADD COLUMN e TEXT DEFAULT 7;
                ALTER TABLE t ADD COLUMN f;
                INSERT INTO t VALUES ('z', 3, 'now', 1.5, 'e', 'f');
                CREATE INDEX t_c ON t (c, e);
                """),
        Shape(
            name: "partial and expression indexes",
            sql: """
                CREATE TABLE t (a TEXT COLLATE prog, b INT);
                CREATE INDEX t_partial ON t (b) WHERE a COLLATE BINARY > 'b';
                CREATE INDEX t_expression ON t (b + 1);
                CREATE INDEX t_order ON t (a);
                CREATE INDEX t_f ON t (prog_f(a));
                CREATE INDEX t_where ON t (b) WHERE prog_f(a) > 'm';
                INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), (NULL, 4);
                """, leftOut: ["t_order", "t_f", "t_where"]),
        Shape(
            name: "WITHOUT ROWID",
            sql: """
                CREATE TABLE t (a, b TEXT CHECK (prog_f(b) <> 'x'), c INT, PRIMARY KEY (c, a)) WITHOUT ROWID;
                INSERT INTO t VALUES ('p', 'q', 2), ('r', 's', 1), ('t', NULL, 1);
                """, order: "c, a"),
        Shape(
            name: "in UTF-16",
            sql: """
                CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL ON CONFLICT REPLACE DEFAULT (uuid()), b TEXT COLLATE prog);
                INSERT INTO t VALUES ('ä', 'ö'), ('z', '€'), ('a', '');
                """, encoding: "UTF-16be"),
        // The mark was removed, and the import failed.
        Shape(name: "byte-order marks", sql: marks("a, b"), encoding: "UTF-16le"),
        Shape(name: "byte-order marks, big-endian", sql: marks("a, b"), encoding: "UTF-16be"),
        Shape(name: "byte-order marks beside a key", sql: marks("a COLLATE prog UNIQUE, b"), encoding: "UTF-16le"),
        Shape(
            name: "byte-order marks beside a check", sql: marks("a, b CHECK (prog_f(b) <> 'x')"), encoding: "UTF-16be"),
    ]

    static func marks(_ columns: String) -> String {
        """
        CREATE TABLE t (\(columns));
        INSERT INTO t VALUES (char(0xfeff, 97), char(98)), (char(99), char(0xfeff)), (char(0xfeff), char(0xfeff, 0xfeff)),
            (x'fffe6200' || x'', x'feff0061' || x''), (x'fffe', x'feff'), (NULL, ''), (char(97, 0xfeff), 1);
        """
    }
}
